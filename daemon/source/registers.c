#include "daemon/source/registers.h"

#include <stdio.h>
#include <string.h>
#include <sys/user.h>

#if defined(__x86_64__)
#define AT(name)	offsetof(struct user_regs_struct, name)

/* The first 21 words of what ptrace(2) has are struct pt_regs. */
const uint16_t registers_bytes = AT(ss) + sizeof(unsigned long);
const uint16_t register_ip = AT(rip), register_result = AT(rax);
const uint16_t register_arg[REGISTER_ARGS] = {AT(rdi), AT(rsi), AT(rdx), AT(rcx), AT(r8), AT(r9)};

/* By its names of 64, 32, 16 and 8 bits; the second byte of four of them has a name, too. */
static const struct {
	const char *name[5];
	uint16_t offset;
} table[] = {
	{{"rax", "eax", "ax", "al", "ah"}, AT(rax)},	{{"rbx", "ebx", "bx", "bl", "bh"}, AT(rbx)},
	{{"rcx", "ecx", "cx", "cl", "ch"}, AT(rcx)},	{{"rdx", "edx", "dx", "dl", "dh"}, AT(rdx)},
	{{"rsi", "esi", "si", "sil", ""}, AT(rsi)},	{{"rdi", "edi", "di", "dil", ""}, AT(rdi)},
	{{"rbp", "ebp", "bp", "bpl", ""}, AT(rbp)},	{{"rsp", "esp", "sp", "spl", ""}, AT(rsp)},
	{{"r8", "r8d", "r8w", "r8b", ""}, AT(r8)},	{{"r9", "r9d", "r9w", "r9b", ""}, AT(r9)},
	{{"r10", "r10d", "r10w", "r10b", ""}, AT(r10)},	{{"r11", "r11d", "r11w", "r11b", ""}, AT(r11)},
	{{"r12", "r12d", "r12w", "r12b", ""}, AT(r12)},	{{"r13", "r13d", "r13w", "r13b", ""}, AT(r13)},
	{{"r14", "r14d", "r14w", "r14b", ""}, AT(r14)},	{{"r15", "r15d", "r15w", "r15b", ""}, AT(r15)},
};

bool register_find(const char *name, size_t bytes, uint16_t *offset)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (unsigned n = 0; n < 5; n++) {
			const char *known = table[i].name[n];

			if (bytes < 2 || name[0] != '%' || strlen(known) != bytes - 1 ||
			    memcmp(name + 1, known, bytes - 1) != 0)
				continue;
			*offset = (uint16_t)(table[i].offset + (n == 4));
			return true;
		}
	return false;
}
#elif defined(__aarch64__)
/* x0 to x30, sp, pc, pstate. */
const uint16_t registers_bytes = 34 * 8;
const uint16_t register_ip = 32 * 8, register_result = 0;
const uint16_t register_arg[REGISTER_ARGS] = {0, 8, 16, 24, 32, 40};

bool register_find(const char *name, size_t bytes, uint16_t *offset)
{
	unsigned number;
	char text[8], end;

	if (bytes >= sizeof(text))
		return false;
	memcpy(text, name, bytes);
	text[bytes] = '\0';
	if (strcmp(text, "sp") == 0)
		number = 31;
	else if ((text[0] != 'x' && text[0] != 'w') || sscanf(text + 1, "%u%c", &number, &end) != 1 ||
		 number > 30)
		return false;
	*offset = (uint16_t)(8 * number);
	return true;
}
#else
#error "the registers of this architecture are not described here"
#endif
