/* eh_frame_file: an ELF file of x86-64 with that .eh_frame, a build-id and a piece of code that is loaded. */
#ifndef RINGTAIL_TESTS_LIB_EH_FRAME_FILE_H
#define RINGTAIL_TESTS_LIB_EH_FRAME_FILE_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EH_CODE_OFFSET	0x1000u		/* in the file, */
#define EH_CODE_ADDRESS	0x401000u	/* and where the linker has put it */
#define EH_CODE_BYTES	0x100000u
#define EH_ADDRESS	0x600000u	/* of .eh_frame */

struct eh_frame_file {
	Elf64_Ehdr header;
	Elf64_Phdr program[2];
	struct {
		Elf64_Nhdr header;
		char name[4];
		uint8_t build_id[20];
	} note;
	char names[24];
	Elf64_Shdr section[3];
};

static struct eh_frame_file eh_frame_file_head(size_t bytes)
{
	struct eh_frame_file head = {
		.header = {
			.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB}, .e_machine = EM_X86_64,
			.e_phoff = offsetof(struct eh_frame_file, program), .e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 2, .e_shoff = offsetof(struct eh_frame_file, section),
			.e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 1,
		},
		.program = {
			{.p_type = PT_LOAD, .p_offset = EH_CODE_OFFSET, .p_vaddr = EH_CODE_ADDRESS,
			 .p_filesz = EH_CODE_BYTES, .p_memsz = EH_CODE_BYTES},
			{.p_type = PT_NOTE, .p_offset = offsetof(struct eh_frame_file, note),
			 .p_filesz = sizeof(head.note)},
		},
		.note = {.header = {4, 20, NT_GNU_BUILD_ID}, .name = "GNU", .build_id = "a build-id of a file"},
		.names = "\0.eh_frame\0.shstrtab",
		.section = {
			{0},
			{.sh_name = 11, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct eh_frame_file, names),
			 .sh_size = sizeof(head.names)},
			{.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_addr = EH_ADDRESS,
			 .sh_offset = sizeof(struct eh_frame_file), .sh_size = bytes},
		},
	};

	return head;
}

/* Writes it in the place of what was there. */
static void eh_frame_file_write(int fd, const void *eh_frame, size_t bytes)
{
	struct eh_frame_file head = eh_frame_file_head(bytes);

	if (ftruncate(fd, 0) || pwrite(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
	    pwrite(fd, eh_frame, bytes, sizeof(head)) != (ssize_t)bytes)
		abort();
}

#endif
