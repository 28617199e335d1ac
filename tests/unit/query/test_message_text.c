/* Which strings of a message are looked at, and where it is said that one is not to be shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/ringtail.pb-c.h"
#include "query/message_text.h"

static void expect(const ProtobufCMessage *message, const char *in, const char *field, size_t byte,
		   uint32_t code, bool no_text)
{
	struct message_text_place place;

	assert_false(message_text_is_visible(message, &place));
	assert_string_equal(place.message, in);
	assert_string_equal(place.field, field);
	assert_int_equal(place.byte, byte);
	assert_int_equal(place.code, code);
	assert_int_equal(place.no_text, no_text);
}

static void forged_lines(void **state)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	struct message_text_place place;
	char *probe[] = {"a", "\xc3\xa4 b"};

	(void)state;
	assert_true(message_text_is_visible(&subscribe.base, &place));
	subscribe.probe = probe;
	subscribe.n_probe = 2;
	assert_true(message_text_is_visible(&subscribe.base, &place));
	probe[1] = "b\nc";
	expect(&subscribe.base, "Subscribe", "probe", 1, '\n', false);
	subscribe.n_probe = 1;
	assert_true(message_text_is_visible(&subscribe.base, &place));
	subscribe.filter = "comm == \"\xff\"";
	expect(&subscribe.base, "Subscribe", "filter", 9, 0xff, true);
	subscribe.filter = "\xc2\x9b";
	expect(&subscribe.base, "Subscribe", "filter", 0, 0x9b, false);
	subscribe.filter = "";
	subscribe.consumer = "\xe2\x80\xae";
	expect(&subscribe.base, "Subscribe", "consumer", 0, 0x202e, false);
}

/* In the messages inside it, too, however they are held. */
static void forged_lines_inside(void **state)
{
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT, *probes[] = {&probe};
	Ringtail__V1__Field field = RINGTAIL__V1__FIELD__INIT, *fields[] = {&field};
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	struct message_text_place place;

	(void)state;
	catalog.probe = probes;
	catalog.n_probe = 1;
	probe.field = fields;
	probe.n_field = 1;
	assert_true(message_text_is_visible(&catalog.base, &place));
	field.c_type = "const char\x1b *";
	expect(&catalog.base, "Field", "c_type", 10, 0x1b, false);
	subscribed.start = &cursor;
	assert_true(message_text_is_visible(&subscribed.base, &place));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forged_lines),
		cmocka_unit_test(forged_lines_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
