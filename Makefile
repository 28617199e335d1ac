# ringtail. `make` builds, `make help` lists the rest; V=1 shows the commands.
#
# A room is a library; a program or a test is found by where it lies:
#	proto/*.c                   libproto.a
#	query/*.c                   libquery.a
#	daemon/, its rooms          libdaemon.a, with main.c ringtaild
#	client/lib/*.c              libringtail.a and .so, with proto/ and what it takes of query/
#	client/cli/*.c              libtracectl.a, with main.c and cmd_*.c tracectl
#	courier/*.c                 libcourier.a, with main_*.c ringtail-courier and ringtail-kafka
#	tests/unit/ROOM/test_*.c    a program each, linked with its room and proto
#	tests/fuzz/fuzz_*.c         a libFuzzer target each
#	tests/sim/*.c               one program: the daemon in a simulated world
#	tests/bench/*.c             a program each
# The same tree in other ways, each in a BUILD of its own; `make check` builds these, and no others:
#	make BUILD=build/asan SANITIZE=-fsanitize=address,undefined
#	make BUILD=build/tsan SANITIZE=-fsanitize=thread
#	make fuzzers BUILD=build/fuzz CC=clang SANITIZE=-fsanitize=address,undefined,fuzzer-no-link

# The one place that says it (tests/unit/check/version_test.py compares the others).
VERSION	:= 0.1.0
BUILD	?= build
PREFIX	?= /usr
LIBDIR	?= $(PREFIX)/lib
DESTDIR	?=
CC	?= gcc
CLANG	?= clang
BPFTOOL	?= $(firstword $(shell command -v bpftool) /usr/sbin/bpftool)
V	?= 0
SANITIZE ?=
comma	:= ,

Q	:= $(if $(filter 1,$(V)),,@)
say	= $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)')

WARN	:= -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
# What sanitizers add is not worth optimising: -O2 takes twice as long to compile, and finds no more. What a
# compiler warns of after less thought, the ordinary build has thought to its end.
CFLAGS	?= $(if $(SANITIZE),-O1 -g1,-O2 -g)
CPPFLAGS := -D_GNU_SOURCE -DRINGTAIL_VERSION='"$(VERSION)"' -I. -I$(BUILD)
# What makes a bug harder to use, as far as this compiler knows it (tests/unit/daemon/hardened_test.py
# reads the programs). Fortified calls take an optimiser. Sanitizers check the same themselves.
takes	= $(shell $(CC) -Werror $(1) -S -o /dev/null -x c /dev/null 2>/dev/null && echo '$(1)')
HARDEN	:= -fPIE $(if $(SANITIZE),,$(foreach flag,-fstack-protector-strong -fstack-clash-protection \
	-ftrivial-auto-var-init=zero -fcf-protection=full -mbranch-protection=standard,\
	$(call takes,$(flag))))
# What a sanitizer finds is the end, and its traces have every frame.
SANITIZED := $(if $(SANITIZE),$(SANITIZE) -fno-omit-frame-pointer \
	$(if $(findstring undefined,$(SANITIZE)),-fno-sanitize-recover=undefined) \
	$(if $(findstring clang,$(CC)),,-Wno-format-truncation -Wno-maybe-uninitialized))
FORTIFY	:= $(if $(SANITIZE)$(filter -O0 -Og,$(CFLAGS)),,$(if $(findstring -O,$(CFLAGS)),\
	-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3))
# Debian's crt1.o has no CET note, so the linker would leave ours out: it is told.
HARDEN_LD := -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code \
	$(if $(findstring -fcf-protection,$(HARDEN)),-Wl$(comma)-z$(comma)ibt$(comma)-z$(comma)shstk)
ALL_CFLAGS := -std=gnu17 $(WARN) -fno-strict-aliasing -pthread $(CFLAGS) $(HARDEN) $(FORTIFY) \
	$(SANITIZED)
# Some two hundred test programs are linked with all of the daemon. Where there is gold, it takes half as long, and a
# quarter with ASan. It knows no flags that harden, so what is installed is linked without it; nor clang's ASan.
LDFLAGS_GIVEN := $(LDFLAGS)
TEST_LD	= $(LDFLAGS_GIVEN) -pthread -pie -fno-lto $(SANITIZE) $(GOLD)
ifeq ($(SANITIZE),)
LDFLAGS	+= -pthread $(HARDEN_LD) -fno-lto
else
LDFLAGS	= $(TEST_LD)
endif
GOLD	= $(eval GOLD := $(shell echo 'int main(void) { return 0; }' | $(if $(findstring clang,$(CC)),false,cat) | \
	$(CC) -fuse-ld=gold -x c -o /dev/null - 2>/dev/null && echo -fuse-ld=gold))$(GOLD)

PROTO_LIBS  := -lprotobuf-c -lzstd -lisal
DAEMON_LIBS := -levent_pthreads -levent_openssl -levent_core -levent_extra -lssl -lcrypto \
	-lcurl -lsnappy -lseccomp -lbpf -lsystemd -lcap $(PROTO_LIBS)
COURIER_LIBS := -lrdkafka -lssl -lcrypto -lseccomp -lcap $(PROTO_LIBS)
CLIENT_LIBS := -ljansson -lsqlite3 -lncursesw -ltinfo -lz -lssl -lcrypto -lcap $(PROTO_LIBS)

# Objects of other flags are made again.
FLAGS	:= $(BUILD)/.flags
FLAGS_TEXT := $(CC) $(ALL_CFLAGS)
$(FLAGS): always
	$(Q)mkdir -p $(@D) && echo '$(FLAGS_TEXT)' | cmp -s - $@ || echo '$(FLAGS_TEXT)' >$@
.PHONY: always

# Commands of one line each, so that a failed one leaves nothing behind.
.DELETE_ON_ERROR:
# What is made on the way stays; and is made again where it is gone, or its source is newer than it.
.PRECIOUS: $(BUILD)/%.o $(BUILD)/proto/export/%.pb-c.h
.DEFAULT_GOAL := all
.PHONY: all demo demo-fleet check unit tests bench bench-scale interop fuzz fuzzers torture soak mutate mutate-nightly sim-coverage \
	install install-dkms install-grafana uninstall deb dist release \
	stress clean deps docs t repeat tidy help compile_commands.json

# ---- What is missing is installed, once ---------------------------------------------------------

BUILD_DEPS := build/.deps-build
DEPS	:= build/.deps-check
deps: $(DEPS) ## installs what building and testing takes
build/.deps-%: .ci/deps.sh
	$(Q)mkdir -p build && sh .ci/deps.sh $* && touch $@
$(DEPS): $(BUILD_DEPS)
build/.deps-bench: $(DEPS)
check-packages check-wireshark check-fleet check-bindings check-others check-fresh: build/.deps-more
# Each kernel and processor with BPF, and the module; the page says what came of it.
check-kernels: build/.deps-kernels ## runs the tests under other kernels, and writes docs/kernels.md
	$(Q)python3 tests/check.py --build build --only every_kernel --only kmod; result=$$?; \
	python3 tests/kernels/table.py build/check docs/kernels.md && exit $$result

# ---- Generated ----------------------------------------------------------------------------------

PB_H	:= $(BUILD)/proto/ringtail.pb-c.h
SKEL	:= $(BUILD)/kmod/ringtail.skel.h
NUMBERS	:= $(BUILD)/daemon/source/syscall_numbers.inc
PAGE	:= $(BUILD)/daemon/http/page.inc
CONSTANTS := $(BUILD)/query/constants.inc
EXPORT_PB := $(patsubst %.proto,$(BUILD)/%.pb-c,$(wildcard proto/export/*.proto))
REVISION := $(BUILD)/proto/revision.h
GENERATED := $(PB_H) $(REVISION) $(EXPORT_PB:%=%.h) $(SKEL) $(NUMBERS) $(PAGE) $(CONSTANTS)

# Of git, or what `git archive` has written into .revision.
$(REVISION): always
	$(Q)mkdir -p $(@D) && printf '#define RINGTAIL_REVISION "%s"\n' "$$(sh proto/revision.sh)" >$@.new && \
		if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(PB_H): proto/ringtail.proto | $(BUILD_DEPS)
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(BUILD)/proto && protoc-c -I. --c_out=$(BUILD) $<

# What back ends are sent: known to the daemon alone.
$(BUILD)/proto/export/%.pb-c.h: proto/export/%.proto | $(BUILD_DEPS)
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(@D) && protoc-c -I. --c_out=$(BUILD) $<

$(CONSTANTS): query/constants.py query/constants.def | $(BUILD_DEPS)
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D) && python3 query/constants.py '$(CC)' query/constants.def >$@.new && mv $@.new $@

DISSECTOR := $(BUILD)/ringtail.lua
DISSECTOR_OF := client/wireshark/ringtail.lua.in proto/ringtail.proto proto/frame_types.def proto/limits.def
$(DISSECTOR): client/wireshark/wireshark.py $(DISSECTOR_OF)
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D) && python3 client/wireshark/wireshark.py $(DISSECTOR_OF) >$@.new && mv $@.new $@

$(NUMBERS): daemon/source/syscall_numbers.sh | $(BUILD_DEPS)
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D) && sh $< '$(CC)' >$@

$(PAGE): daemon/http/page.py daemon/http/page.html | $(BUILD_DEPS)
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D) && python3 $^ >$@

BPF_SOURCES := $(wildcard kmod/bpf/*.[ch]) kmod/uapi/ringtail.h
MULTIARCH := $(shell $(CC) -print-multiarch)
BPF_ARCH := $(patsubst x86_64,x86,$(patsubst aarch64,arm64,$(firstword $(subst -, ,$(MULTIARCH)))))
BPF_HEADERS := $(patsubst %/,%,$(shell $(CC) -print-sysroot 2>/dev/null))/usr/include
$(BUILD)/kmod/ringtail.bpf.o: kmod/bpf/ringtail.bpf.c $(BPF_SOURCES) | $(BUILD_DEPS)
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D) && $(CLANG) -target bpf -mcpu=v3 -O2 -g -Wall -Werror \
		-ffile-prefix-map=$(CURDIR)=. -D__TARGET_ARCH_$(BPF_ARCH) -I. -I$(BPF_HEADERS)/$(MULTIARCH) -I$(BPF_HEADERS) -c $< -o $@

$(SKEL): $(BUILD)/kmod/ringtail.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name ringtail_bpf >$@

# ---- Rooms --------------------------------------------------------------------------------------

# What decodes nothing that comes from outside, and half of all: clang is not to compile it for the fuzzers. If one
# comes to need it, the linker reports what is missing: delete its word here.
ifneq ($(filter fuzzers,$(MAKECMDGOALS)),)
UNFUZZED := $(addsuffix .c,$(addprefix daemon/,engine metering sandbox_engine access/audit ask/% base/clock_counter base/random \
	collect/pace collect/worker export/ack export/choose export/feed export/http export/intake export/sender \
	export/target host/privileges host/resolver host/sandbox host/watchdog http/closeup http/http http/live http/status \
	metrics/kernel metrics/metric metrics/self metrics/source net/listener net/origin programs/counter_clock programs/inlet \
	programs/programs programs/taken_names relay/disk_sink relay/relay relay/waiting_room ring/writer serve/answers serve/control serve/dialler \
	serve/dump_parts serve/server serve/stuck source/bpf source/bpf_check source/bpf_function% \
	source/bpf_image source/bpf_kernel_part source/bpf_made source/bpf_objects source/bpf_places source/bpf_preempted source/bpf_refused \
	source/bpf_stuck source/bpf_template source/bpf_timers source/bpf_tracepoint source/bpf_uprobe \
	source/finder source/kmod source/loader source/loader_serve source/none source/recording source/replay \
	stream/beginning stream/durable stream/fanout stream/making stream/recorder stream/subscriber \
	stream/subscriptions trigger/call trigger/dump trigger/dumps trigger/triggers) \
	$(addprefix client/cli/,command cursor_file fleet_ask host_check hosts kafka_source named options pager print_stuck progress \
	pump rate_line request screen since spool_dir stat_print stop token top_view tree trust_check where who))
endif

PROTO_OBJECTS  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard proto/*.c)) $(BUILD)/proto/ringtail.pb-c.o
QUERY_OBJECTS  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard query/*.c))
DAEMON_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(UNFUZZED) \
	daemon/main.c,$(wildcard daemon/*.c daemon/*/*.c))) $(EXPORT_PB:%=%.o)
CLIENT_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard client/lib/*.c))
TRACECTL_C     := client/cli/main.c $(wildcard client/cli/cmd_*.c)
CLI_OBJECTS    := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(UNFUZZED) $(TRACECTL_C),$(wildcard client/cli/*.c)))
# Of the daemon, what gives up privileges: the rest of it would bring its libraries.
COURIER_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out courier/main_%,$(wildcard courier/*.c)) \
	daemon/host/privileges.c daemon/host/resolver.c daemon/host/sandbox.c)
LIBPROTO  := $(BUILD)/libproto.a
LIBQUERY  := $(BUILD)/libquery.a
LIBDAEMON := $(BUILD)/libdaemon.a
LIBCLIENT := $(BUILD)/libringtail.a
# Raised when a program that is linked with it would have to be compiled anew.
SONAME	:= libringtail.so.1
LIBSHARED := $(BUILD)/$(SONAME)
LIBCLI    := $(BUILD)/libtracectl.a
LIBCOURIER := $(BUILD)/libcourier.a
LIB_proto  := $(LIBPROTO)
LIB_query  := $(LIBQUERY) $(LIBPROTO)
LIB_daemon := $(LIBDAEMON) $(LIBQUERY) $(LIBPROTO)
LIB_client := $(LIBCLI) $(LIBCLIENT) $(LIBQUERY) $(LIBPROTO)
LIB_courier := $(LIBCOURIER) $(LIBCLIENT) $(LIBQUERY) $(LIBPROTO)
LIBS_proto := $(PROTO_LIBS)
LIBS_query := $(PROTO_LIBS)
LIBS_daemon := $(DAEMON_LIBS) -lz
LIBS_client := $(CLIENT_LIBS)
LIBS_courier := $(COURIER_LIBS)

all: $(BUILD)/ringtaild $(BUILD)/tracectl $(BUILD)/ringtail-courier $(BUILD)/ringtail-kafka $(DISSECTOR) $(if $(SANITIZE),,$(LIBSHARED)) $(BUILD)/tools/load $(BUILD)/tools/swarm $(BUILD)/tools/busy $(BUILD)/tools/frameless $(BUILD)/tools/kafka_mock $(BUILD)/tools/kafka_topic $(BUILD)/tools/kafka_dump ## builds ringtaild, tracectl, the courier and the tools

# -MMD tells what each object was made of; generated headers must be there before the first time.
$(BUILD)/%.o: %.c $(FLAGS) | $(GENERATED)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Code that lies anywhere in memory, for the shared library.
PIC_CFLAGS = $(filter-out -fPIE,$(ALL_CFLAGS)) -fPIC
$(BUILD)/pic/%.o: %.c $(FLAGS) | $(GENERATED)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(PIC_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/proto/ringtail.pb-c.o: $(PB_H)
	$(call say,CC,$(PB_H:.h=.c))
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Wno-shadow -MMD -MP -c $(PB_H:.h=.c) -o $@

$(BUILD)/pic/proto/ringtail.pb-c.o: $(PB_H)
	$(call say,CC,$(PB_H:.h=.c))
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(PIC_CFLAGS) -Wno-shadow -MMD -MP \
		-c $(PB_H:.h=.c) -o $@

$(BUILD)/proto/export/%.pb-c.o: $(BUILD)/proto/export/%.pb-c.h
	$(call say,CC,$(<:.h=.c))
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Wno-shadow -MMD -MP -c $(<:.h=.c) -o $@

$(LIBPROTO): $(PROTO_OBJECTS)
$(LIBQUERY): $(QUERY_OBJECTS)
$(LIBDAEMON): $(DAEMON_OBJECTS)
$(LIBCLI): $(CLI_OBJECTS)
$(LIBCOURIER): $(COURIER_OBJECTS)
# What others link stands alone.
$(LIBCLIENT): $(CLIENT_OBJECTS) $(PROTO_OBJECTS) $(QUERY_OBJECTS)
$(LIBPROTO) $(LIBQUERY) $(LIBDAEMON) $(LIBCLIENT) $(LIBCLI) $(LIBCOURIER):
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

# The same, shared: of its symbols only those of ringtail.map, which a linker can tell apart by version.
$(LIBSHARED): $(patsubst $(BUILD)/%,$(BUILD)/pic/%,$(CLIENT_OBJECTS) $(PROTO_OBJECTS) $(QUERY_OBJECTS)) \
		client/lib/ringtail.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(filter-out -pie,$(LDFLAGS)) -Wl,-z,defs \
		-Wl,-soname,$(SONAME) -Wl,--as-needed -Wl,--version-script,client/lib/ringtail.map \
		-o $@ $(filter %.o,$^) -lssl -lcrypto $(PROTO_LIBS)

# What every event goes through is optimised as one piece in the daemon (docs/performance.md); the
# objects hold ordinary code too, for the tests, which put functions of their own in the place of some.
HOT	:= daemon/ring/reader daemon/ring/thread_table daemon/collect/drain daemon/collect/batcher \
	daemon/collect/meter query/filter query/filter_program proto/batch_encode
LTO	:= $(if $(SANITIZE)$(findstring clang,$(CC)),,-flto=auto -ffat-lto-objects)
# A seed of its own for each, so that the names which the compiler makes up are the same every time.
# Where paths are mapped, for packages, the assembler has to be told too: of an object for both, it names them.
$(HOT:%=$(BUILD)/%.o): ALL_CFLAGS += $(LTO) $(if $(LTO),-frandom-seed=$(@F) \
	$(if $(filter -ffile-prefix-map=%,$(CFLAGS)),-Wa$(comma)--debug-prefix-map=$(CURDIR)=.))
LINK_HOT := $(if $(LTO),$(CFLAGS) $(HARDEN) $(LTO) $(filter-out -fno-lto,$(LDFLAGS)),$(LDFLAGS))

$(BUILD)/ringtaild: $(BUILD)/daemon/main.o $(LIB_daemon)
	$(call say,LD,$@)
	$(Q)$(CC) $(LINK_HOT) -o $@ $^ $(DAEMON_LIBS)

$(BUILD)/tracectl: $(patsubst %.c,$(BUILD)/%.o,$(TRACECTL_C)) $(LIB_client)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(CLIENT_LIBS)

$(BUILD)/ringtail-%: $(BUILD)/courier/main_%.o $(LIB_courier)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(COURIER_LIBS)

$(BUILD)/tools/swarm: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/tools/swarm*.c)) $(LIBPROTO)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) -o $@ $^ -lssl -lcrypto $(PROTO_LIBS)

# The first instruction of the function that is probed is a nop.
$(BUILD)/tests/bench/marked.o: ALL_CFLAGS += $(if $(filter x86_64,$(shell uname -m)),-fcf-protection=none)

# Whose stacks are looked at: each of its functions has a frame.
$(BUILD)/tests/tools/busy.o $(BUILD)/tests/bench/profile.o: ALL_CFLAGS += \
	-fno-omit-frame-pointer -fno-optimize-sibling-calls $(if $(findstring clang,$(CC)),,-fno-ipa-icf)

# And whose stacks are followed though they have none.
$(BUILD)/tests/tools/frameless.o: ALL_CFLAGS += -O2 -fomit-frame-pointer -fno-optimize-sibling-calls \
	$(if $(findstring clang,$(CC)),,-fno-ipa-icf)

$(BUILD)/tools/kafka_%: $(BUILD)/tests/tools/kafka_%.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) -o $@ $^ -lrdkafka

$(BUILD)/tools/%: $(BUILD)/tests/tools/%.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) -o $@ $^

# ---- Tests --------------------------------------------------------------------------------------

# What a test defines as __wrap_NAME is called in the place of NAME, which it knows as __real_NAME.
wrapped	= $$(nm $(1) | sed -n 's/.* T __wrap_/-Wl,--wrap=/p')

UNIT_ROOMS := proto query daemon client courier
UNIT_C	:= $(wildcard $(foreach room,$(UNIT_ROOMS),tests/unit/$(room)/test_*.c))
UNITS	:= $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_C))
define unit_rule
$$(BUILD)/unit/$(1)/%: $$(BUILD)/tests/unit/$(1)/%.o $$(LIB_$(1))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(TEST_LD) $$(call wrapped,$$<) -o $$@ $$^ -lcmocka $$(LIBS_$(1))
endef
$(foreach room,$(UNIT_ROOMS),$(eval $(call unit_rule,$(room))))
$(patsubst %.c,$(BUILD)/%.o,$(UNIT_C) $(wildcard tests/bpf/*.c tests/stress/*.c)): | $(DEPS)
# Each case runs once: optimising and hardening it takes longer than it saves. What it tests is compiled as ever. What
# UBSan looks for is looked for in what is tested; ASan knows the test's own arrays, too, for they are passed there.
$(patsubst %.c,$(BUILD)/%.o,$(UNIT_C) $(wildcard tests/bpf/*.c)): ALL_CFLAGS := \
	$(filter-out -O% -g $(HARDEN) -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=%,$(ALL_CFLAGS)) -fPIE -O0 -g1 \
	$(if $(SANITIZE),-fno-sanitize=undefined)
unit: $(UNITS) ## builds the unit tests

$(BUILD)/tests/bpf/test_unwind.o: ALL_CFLAGS += -O2 -fomit-frame-pointer
BPF_TESTS := $(patsubst tests/bpf/%.c,$(BUILD)/bpf/%,$(wildcard tests/bpf/test_*.c))
BPF_HARNESS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/bpf/test_%,$(wildcard tests/bpf/*.c)))
$(BUILD)/bpf/%: $(BUILD)/tests/bpf/%.o $(BPF_HARNESS) $(LIB_daemon)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(TEST_LD) $(call wrapped,$<) -o $@ $^ -lcmocka $(DAEMON_LIBS)

STRESS	:= $(patsubst tests/stress/%.c,$(BUILD)/stress/%,$(wildcard tests/stress/*.c))
$(BUILD)/stress/%: $(BUILD)/tests/stress/%.o $(LIB_daemon)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(TEST_LD) -o $@ $^ $(DAEMON_LIBS)

# The daemon above a made-up world: what is defined in tests/sim is taken before the libraries'.
SIM_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/sim/*.c))
$(BUILD)/sim/sim: $(SIM_OBJECTS) $(LIB_daemon)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(TEST_LD) $(call wrapped,$(SIM_OBJECTS)) -o $@ $^ $(DAEMON_LIBS)

stress: $(STRESS)
tests: unit stress $(BPF_TESTS) $(BUILD)/sim/sim ## builds every test program

# A room's fuzzers are built apart, with clang and its sanitizers.
FUZZ_BUILD := build/fuzz
FUZZERS	:= $(patsubst tests/fuzz/%.c,$(FUZZ_BUILD)/bin/%,$(wildcard tests/fuzz/fuzz_*.c))
ifneq ($(filter fuzzers,$(MAKECMDGOALS)),)
fuzzers: $(patsubst tests/fuzz/%.c,$(BUILD)/bin/%,$(wildcard tests/fuzz/fuzz_*.c))
$(foreach one,client elf fleet jit lanes reach,$(BUILD)/bin/fuzz_$(one)): $(BUILD)/bin/%: $(BUILD)/tests/fuzz/%.o $(LIB_client)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(CLIENT_LIBS)
$(BUILD)/bin/fuzz_tracepoint: $(BUILD)/tests/fuzz/fuzz_tracepoint.o $(LIB_daemon) $(LIB_client)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $+ $(DAEMON_LIBS) $(CLIENT_LIBS)
$(BUILD)/bin/%: $(BUILD)/tests/fuzz/%.o $(LIB_daemon)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(DAEMON_LIBS)
endif

BENCH_C	:= $(wildcard tests/bench/*.c)
BENCHES	:= $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(BENCH_C))
$(BUILD)/bench/lttng_%: $(BUILD)/tests/bench/lttng_%.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) -o $@ $^ -llttng-ust -ldl
$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(LIB_daemon)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LINK_HOT) -o $@ $^ $(DAEMON_LIBS)

# Of this build alone: others below it may be in the making.
-include $(shell find $(foreach room,proto query daemon client courier tests pic,$(BUILD)/$(room)) -type f -name '*.d' \
	2>/dev/null)

# ---- Commands -----------------------------------------------------------------------------------

t: $(DEPS) ## runs the test T=NAME, of whatever kind (make t T=stream)
	$(Q)python3 tests/one.py --build $(BUILD) $(T)

# Whether a test is steady: N runs, beside LOAD programs that compute; PAUSES=1: it is stopped now and then.
N	?= 100
LOAD	?= 0
PAUSES	?=
repeat: $(DEPS) ## runs the test T=NAME again and again, and shows what failed (N=100, LOAD=8, PAUSES=1)
	$(Q)python3 tests/one.py --build $(BUILD) --repeat $(N) --load $(LOAD) $(if $(PAUSES),--pauses) $(T)

help: ## lists these
	@sed -n 's/^\([a-z][a-z_.%-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 32

compile_commands.json: $(GENERATED) ## for clangd and editors
	$(Q)$(MAKE) -Bn V=1 all tests 2>/dev/null | python3 tests/tools/compile_commands.py >$@

TIDY	?= $(shell git ls-files 'daemon/*.c' 'client/*.c' 'courier/*.c' 'query/*.c' 'proto/*.c')
tidy: $(DEPS) compile_commands.json ## looks for mistakes with clang-tidy (TIDY='FILE...', or all files)
	$(Q)python3 tests/tools/tidy.py $(TIDY)

# The page of limits, from the tables; a test fails where it is stale.
docs: ## makes docs/limits.md from the tables
	$(Q)python3 tests/tools/limits.py >docs/limits.md.new && mv docs/limits.md.new docs/limits.md

demo: all ## traces this kernel for a minute and shows what comes
	$(Q)tests/demo.sh $(BUILD)

demo-fleet: build/.deps-more all ## shows a fleet on this machine: two hosts, a relay, Kafka, a broker that is killed; needs the network once
	$(Q)python3 tests/demo_fleet.py $(BUILD)

check: $(DEPS) ## runs every test
	$(Q)python3 tests/check.py --build build

# What takes the network, and half as long again. Downloads are kept in $RINGTAIL_CACHE, or ~/.cache/ringtail
# where that is a directory, else in build/cache.
.PHONY: check-more
check-more: build/.deps-more ## runs what make check has no network or time for: sim-coverage, clang-tidy, packages, tshark, other kernels, real back ends, real Kafka brokers, programs in Go and Rust, PostgreSQL, a JVM and Redis
	$(Q)python3 tests/check.py --build build --more

# A part of it. (Not among the phony: for those there are no patterns.)
check-%: $(DEPS) ## runs one part: arrows, unit, bpf, sim, scenario, asan, stress, model, valgrind, fuzz, guests, coverage, tidy, packages, wireshark, kernels, backends, fleet, bindings, others, strace, tracepoints, fresh
	$(Q)python3 tests/check.py --build build --only $*

$(filter $(BUILD)/tests/bench/lttng_%,$(BENCH_C:%.c=$(BUILD)/%.o)): | build/.deps-bench
bench: build/.deps-bench all $(BENCHES) ## measures every budget beside ftrace, trace-cmd, perf and LTTng
	$(Q)python3 tests/bench/run.py --build $(BUILD)

bench-scale: $(DEPS) all $(BUILD)/bench/crowd $(BUILD)/tools/load $(BUILD)/tools/swarm ## draws how costs grow with clients, threads, probes, ...: docs/scaling.md
	$(Q)python3 tests/bench/scale.py --build $(BUILD)

# Real servers, built once into build/interop from the Go module proxy; needs the network for that.
interop: $(DEPS) all ## checks what real back ends stored
	$(Q)python3 tests/interop/run.py --build $(BUILD)

# Of each fuzzer: so many seconds, or with FUZZ_RUNS so many inputs.
FUZZ_SECONDS ?= 600
FUZZ_RUNS ?=
fuzz: $(DEPS) ## fuzzes each decoder for FUZZ_SECONDS, or FUZZ_RUNS inputs
	$(Q)python3 tests/check.py --build build --only fuzz \
		$(if $(FUZZ_RUNS),--fuzz-runs $(FUZZ_RUNS),--fuzz-seconds $(FUZZ_SECONDS))

# What of the daemon's rooms the simulation never enters; tests/sim/never_entered.txt must say just that.
sim-coverage: $(DEPS) ## lists which functions the simulation never enters
	$(Q)$(MAKE) $(BUILD)/gcov/sim/sim BUILD=$(BUILD)/gcov SANITIZE=--coverage \
		CFLAGS='-O1 -g -DSIM_COVERAGE'
	$(Q)python3 tests/sim/coverage.py $(BUILD)/gcov

# Known ways to break the code, each of which some test is to notice (ROOM=daemon/ring: of that room's).
mutate: $(DEPS) ## breaks the code in known ways: does a test notice? (ROOM=PATH, CHANGED=1, FRESH=1, SECONDS=N)
	$(Q)python3 tests/mutate/run.py --build build $(if $(ROOM),--room $(ROOM)) \
		$(if $(CHANGED),--changed) $(if $(FRESH),--fresh) $(if $(SECONDS),--seconds $(SECONDS))

# For a timer: each night goes on where the night before had no time left, and begins anew with what has changed.
mutate-nightly: $(DEPS) ## a night's part of make mutate, until none is left (SECONDS=N); keeps a table of all
	$(Q)python3 tests/mutate/run.py --build build --nightly $(if $(SECONDS),--seconds $(SECONDS))

# The long forms of the fault tests, and everything at once for a long time.
torture: $(DEPS) all $(BUILD)/sim/sim ## the long forms of the fault tests
	$(Q)python3 tests/torture.py --build $(BUILD)

soak: $(DEPS) all ## everything at once, for a long time
	$(Q)RINGTAIL_BUILD=$(BUILD) python3 tests/soak.py

# completion SHELL,PLACE: as the shell looks for it.
completion = install -d $(DESTDIR)$(PREFIX)/share/$(dir $(2)) && \
	sed 's,@COMPLETE@,$(PREFIX)/share/ringtail/complete.sh,' client/completions/tracectl.$(1) \
		>$(DESTDIR)$(PREFIX)/share/$(2)

install: all ## into DESTDIR and PREFIX
	install -D -m 0755 $(BUILD)/ringtaild $(DESTDIR)$(PREFIX)/sbin/ringtaild
	install -D -m 0755 $(BUILD)/tracectl $(DESTDIR)$(PREFIX)/bin/tracectl
	install -D -m 0755 $(BUILD)/ringtail-courier $(DESTDIR)$(PREFIX)/bin/ringtail-courier
	install -D -m 0755 $(BUILD)/ringtail-kafka $(DESTDIR)$(PREFIX)/bin/ringtail-kafka
	install -D -m 0644 $(LIBCLIENT) $(DESTDIR)$(LIBDIR)/libringtail.a
	install -D -m 0644 $(LIBSHARED) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libringtail.so
	install -D -m 0644 client/lib/ringtail.h $(DESTDIR)$(PREFIX)/include/ringtail/ringtail.h
	install -D -m 0644 proto/ringtail-probe.h $(DESTDIR)$(PREFIX)/include/ringtail-probe.h
	install -d $(DESTDIR)$(PREFIX)/include/ringtail/kmod/uapi
	install -m 0644 -t $(DESTDIR)$(PREFIX)/include/ringtail/kmod/uapi kmod/uapi/ringtail.h \
		kmod/uapi/ringtail_ioctl.h
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed 's,@PREFIX@,$(PREFIX),; s,@LIBDIR@,$(LIBDIR),; s,@VERSION@,$(VERSION),' \
		client/lib/ringtail.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/ringtail.pc
	install -D -m 0644 proto/ringtail.proto $(DESTDIR)$(PREFIX)/share/ringtail/ringtail.proto
	install -D -m 0644 proto/frame_types.def $(DESTDIR)$(PREFIX)/share/ringtail/frame_types.def
	install -d $(DESTDIR)$(PREFIX)/share/doc/ringtail
	install -m 0644 -t $(DESTDIR)$(PREFIX)/share/doc/ringtail README.md SECURITY.md \
		$(wildcard docs/*.md docs/*.svg) tests/data/capture.rt
	install -D -m 0644 systemd/ringtaild.service $(DESTDIR)/lib/systemd/system/ringtaild.service
	install -D -m 0644 systemd/ringtaild.socket $(DESTDIR)/lib/systemd/system/ringtaild.socket
	install -D -m 0644 systemd/ringtail-courier.service $(DESTDIR)/lib/systemd/system/ringtail-courier.service
	install -D -m 0644 systemd/ringtail-courier.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/ringtail-courier.conf
	install -D -m 0644 systemd/ringtail-courier.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/ringtail-courier.conf
	install -D -m 0644 systemd/network.conf $(DESTDIR)$(PREFIX)/share/ringtail/network.conf
	install -D -m 0644 systemd/ringtail.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/ringtail.conf
	install -D -m 0644 systemd/ringtail.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/ringtail.conf
	install -D -m 0644 systemd/ringtaild.conf $(DESTDIR)$(PREFIX)/share/ringtail/ringtaild.conf
	test -e $(DESTDIR)/etc/ringtail/ringtaild.conf || \
		install -D -m 0644 systemd/ringtaild.conf $(DESTDIR)/etc/ringtail/ringtaild.conf
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/man/man1 docs/tracectl.1 docs/ringtail-kafka.1
	install -D -m 0755 client/completions/complete.sh $(DESTDIR)$(PREFIX)/share/ringtail/complete.sh
	install -D -m 0644 $(DISSECTOR) $(DESTDIR)$(PREFIX)/share/ringtail/ringtail.lua
	install -D -m 0644 client/desktop/ringtail.magic $(DESTDIR)$(PREFIX)/share/ringtail/ringtail.magic
	install -D -m 0644 client/desktop/ringtail.xml $(DESTDIR)$(PREFIX)/share/mime/packages/ringtail.xml
	install -D -m 0644 client/desktop/ringtail.svg \
		$(DESTDIR)$(PREFIX)/share/icons/hicolor/scalable/mimetypes/application-vnd.ringtail.recording.svg
	$(call completion,bash,bash-completion/completions/tracectl)
	$(call completion,zsh,zsh/vendor-completions/_tracectl)
	$(call completion,fish,fish/vendor_completions.d/tracectl.fish)
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/man/man5 docs/ringtaild.conf.5
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/man/man8 docs/ringtaild.8 docs/ringtail-courier.8

# The module's source, as DKMS takes it; who may open its device; and that it is loaded at boot.
DKMS	= $(DESTDIR)$(PREFIX)/src/ringtail-$(VERSION)
install-dkms: ## the kernel module's source, for DKMS
	install -d $(DKMS)/kmod/module $(DKMS)/kmod/uapi
	sed 's,#MODULE_VERSION#,$(VERSION),' kmod/module/dkms.conf >$(DKMS)/dkms.conf
	install -m 0644 -t $(DKMS)/kmod/uapi $(wildcard kmod/uapi/*.h)
	install -m 0644 -t $(DKMS)/kmod/module kmod/module/Makefile kmod/module/Kbuild \
		$(filter-out %.mod.c,$(wildcard kmod/module/*.[ch])) kmod/module/syscall_table.awk
	install -D -m 0644 systemd/modules-load.d-ringtail.conf \
		$(DESTDIR)$(PREFIX)/lib/modules-load.d/ringtail.conf
	install -D -m 0644 systemd/udev-60-ringtail.rules \
		$(DESTDIR)$(PREFIX)/lib/udev/rules.d/60-ringtail.rules
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/man/man4 docs/ringtail.4

GRAFANA	= $(PREFIX)/share/ringtail/grafana
install-grafana: ## dashboards, their provisioning and alert rules
	install -d $(DESTDIR)$(GRAFANA)/dashboards $(DESTDIR)$(GRAFANA)/alerts
	install -m 0644 -t $(DESTDIR)$(GRAFANA)/dashboards $(wildcard grafana/dashboards/*.json)
	install -m 0644 -t $(DESTDIR)$(GRAFANA)/alerts grafana/alerts/ringtail.rules.yaml
	install -D -m 0644 -t $(DESTDIR)$(GRAFANA)/provisioning/datasources \
		grafana/provisioning/datasources/ringtail.yaml
	install -d $(DESTDIR)/etc/grafana/provisioning/dashboards
	sed 's,path: .*,path: $(GRAFANA)/dashboards,' grafana/provisioning/dashboards/ringtail.yaml \
		>$(DESTDIR)/etc/grafana/provisioning/dashboards/ringtail.yaml

# Debian packages of what is in this tree and known to git; or, out of an archive, of all of it. They are built
# in a copy, so that this tree stays as it is.
deb: build/.deps-deb ## builds the Debian packages, into BUILD/deb
	$(Q)sh .ci/deb.sh $(BUILD)/deb

# Of the commit that is checked out.
dist: ## makes the files of a release, into BUILD/dist: source, SPDX document, checksums
	$(Q)sh .ci/dist.sh $(BUILD)/dist

release: build/.deps-more ## looks whether this commit can be published, and makes the files
	$(Q)sh .ci/release.sh $(BUILD)/dist

# What install leaves, by installing it elsewhere and taking the names; /etc and /var stay.
uninstall: all ## removes what install left, but for /etc/ringtail and /var/lib/ringtail
	$(Q)scratch=$$(mktemp -d) && \
	$(MAKE) --no-print-directory install install-dkms DESTDIR=$$scratch PREFIX=$(PREFIX) \
		LIBDIR=$(LIBDIR) >/dev/null && \
	(cd $$scratch && find . -type f,l -not -path './etc/*' | sed 's,^\.,,') | \
		while read -r name; do rm -f "$(DESTDIR)$$name"; done && \
	rm -rf $$scratch && \
	rm -rf $(DESTDIR)$(PREFIX)/src/ringtail-$(VERSION) $(DESTDIR)$(PREFIX)/share/ringtail \
		$(DESTDIR)$(PREFIX)/share/doc/ringtail \
		$(DESTDIR)$(PREFIX)/include/ringtail

clean: ## removes build/
	$(Q)rm -rf build
