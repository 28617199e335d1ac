/* Each reason for which events are lost has a name, says what happened, and what to do about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <string.h>

#include "proto/losses.h"
#include "proto/ringtail.pb-c.h"

#define PREFIX "REASON_"

/* REASON_RING_FULL is "ring-full". */
static void check_name(const char *name, const char *symbol)
{
	symbol += strlen(PREFIX);
	assert_int_equal(strlen(name), strlen(symbol));
	for (; *symbol; symbol++, name++)
		assert_int_equal(*name, *symbol == '_' ? '-' : tolower((unsigned char)*symbol));
}

static void each_reason_has_a_remedy(void **state)
{
	const ProtobufCEnumDescriptor *reasons = &ringtail__v1__loss_reason__descriptor;

	(void)state;
	assert_true(reasons->n_values > 10);
	for (unsigned i = 0; i < reasons->n_values; i++) {
		const struct loss_text *row = loss_text((unsigned)reasons->values[i].value);

		check_name(row->name, reasons->values[i].name);
		assert_true(strlen(row->what) > 10 && strlen(row->remedy) > 10);
		/* One line of a text stream has room for it. */
		assert_true(strlen(row->remedy) < 100);
	}
}

static void what_a_newer_daemon_counts_is_unknown(void **state)
{
	(void)state;
	assert_ptr_equal(loss_text(1000), loss_text(0));
	assert_ptr_equal(loss_text(UINT32_MAX), loss_text(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_reason_has_a_remedy),
		cmocka_unit_test(what_a_newer_daemon_counts_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
