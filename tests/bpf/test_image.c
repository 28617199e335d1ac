/*
 * The programs' instructions are the same whether libbpf looks through all of the kernel's types or through the part
 * that the programs name: a member's place, what is there and what is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/descriptor.h"
#include "daemon/source/bpf_image.h"
#include "daemon/source/bpf_kernel_part.h"
#include "daemon/source/bpf_stuck.h"	/* has the types of the skeleton's variables */
#include "kmod/ringtail.skel.h"

#define SMALLER		20	/* times, at least, the part is */

/* part: -1, or a file for the part of the kernel's types. */
static struct source_bpf_images *relocate(const struct btf *kernel, int part)
{
	struct source_bpf_images *images = source_bpf_images_create();
	LIBBPF_OPTS(bpf_object_open_opts, options);
	struct ringtail_bpf *skeleton;
	char path[64];

	assert_non_null(images);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", part);
	options.btf_custom_path = part >= 0 ? path : NULL;
	skeleton = ringtail_bpf__open_opts(&options);
	assert_non_null(skeleton);
	if (part >= 0)
		assert_int_equal(bpf_kernel_part_write(kernel, bpf_object__btf(skeleton->obj), part), 0);
	assert_int_equal(ringtail_bpf__load(skeleton), 0);
	ringtail_bpf__destroy(skeleton);
	source_bpf_images_end(images);
	return images;
}

/* Descriptors of maps have other numbers. */
static bool names_map(const struct bpf_insn *insn)
{
	return insn->code == (BPF_LD | BPF_IMM | BPF_DW) &&
	       (insn->src_reg == BPF_PSEUDO_MAP_FD || insn->src_reg == BPF_PSEUDO_MAP_VALUE);
}

static void check_same(const struct source_bpf_image *one, const struct source_bpf_image *other)
{
	assert_string_equal(one->name, other->name);
	assert_int_equal(one->insns, other->insns);
	for (size_t i = 0; i < one->insns; i++) {
		struct bpf_insn left = one->insn[i], right = other->insn[i];

		if (names_map(&left) && names_map(&right))
			left.imm = right.imm = 0;
		if (memcmp(&left, &right, sizeof(left)) != 0)
			fail_msg("%s: instruction %zu differs: %02x %x %d %d, %02x %x %d %d", one->name, i,
				 left.code, left.src_reg, left.off, left.imm, right.code, right.src_reg,
				 right.off, right.imm);
	}
}

static void a_part_of_the_types_relocates_as_all_of_them(void **state)
{
	struct btf *kernel = btf__load_vmlinux_btf(), *part_of;
	struct source_bpf_images *all, *some;
	int part = descriptor_memory_file("test_image", false);
	char path[64];

	(void)state;
	assert_non_null(kernel);
	assert_true(part >= 0);
	all = relocate(kernel, -1);
	some = relocate(kernel, part);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", part);
	part_of = btf__parse(path, NULL);
	assert_non_null(part_of);
	print_message("%u of %u types, %u programs\n", btf__type_cnt(part_of), btf__type_cnt(kernel), some->images);
	assert_true(btf__type_cnt(part_of) < btf__type_cnt(kernel) / SMALLER);

	assert_true(all->images > 10);
	assert_int_equal(all->images, some->images);
	for (unsigned i = 0; i < all->images; i++)
		check_same(&all->image[i], &some->image[i]);

	source_bpf_images_find_targets(some, kernel);
	assert_true(source_bpf_image_find(some, "sys_enter")->target_id > 0);
	assert_null(source_bpf_image_find(some, "sys_ent"));
	source_bpf_images_destroy(all);
	source_bpf_images_destroy(some);
	btf__free(part_of);
	btf__free(kernel);
	close(part);
}

int main(void)
{
	if (geteuid() != 0) {
		fputs("BPF takes root\n", stderr);
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_of_the_types_relocates_as_all_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
