// SPDX-License-Identifier: BSD-2-Clause

// Package probe has probes of a Go program, as ringtail-probe.h gives them to one in C. Linux on x86-64 and arm64,
// without cgo and without other packages.
//
//	type done struct {
//		ID  uint32
//		Us  uint32
//		URL string
//	}
//	var requestDone = probe.New[done]("app", "request_done", "id %u took %u us, %s")
//
//	probe.Attach()                // once all probes are defined; whether a daemon listens
//	requestDone.Emit(done{7, 1031, "/index"})
//
// In: values. Out: records in memory that ringtaild has made and reads. Any goroutine. Without a daemon, and where
// nobody asks for the probe, Emit returns at once; On tells that before dear values are made. Nothing is allocated for
// an event.
package probe

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"
	"unsafe"
)

// As in ringtail-probe.h.
const (
	socketPath = "/run/ringtail/programs.sock"
	magic      = 0x656d6172676f7270
	version    = 1
	probesMax  = 512
	argsMax    = 10
	stringMax  = 128
	page       = 4096
	pad        = 0xffff
	attachment = 1
	headWords  = 3
	wordsMax   = headWords + argsMax*(2+stringMax/8)
	enabledAt  = 2048
	lostAt     = 8 // of a ring
	lockAt     = 16
	consumerAt = 64
	helloBytes = 48
	shown      = 2 // of its flags: its user may see its events
	entryBytes = 24
	wait       = 200 * time.Millisecond // a daemon that does not answer holds a program up for so long
	atSecure   = 23                     // of getauxval(3)
	madvRemove = 9                      // of madvise(2)
	tries      = 64
)

const (
	kindUnsigned = 1
	kindSigned   = 2
	kindPointer  = 3
	kindString   = 4
	kindArrayOf  = 4 // and kindUnsigned or kindSigned of its elements
)

type field struct {
	offset uintptr
	kind   uint8
	bytes  uint8
}

type site struct {
	entry  []byte // as it is sent
	fields []field
	number uint32
}

// Probe is one event of a program, with the fields of the structure T.
type Probe[T any] struct {
	site *site
}

type program struct {
	fd     int
	memory []byte
	rings  uint32
	size   uint64 // of a ring's data
	probes uint32
}

var (
	lock    sync.Mutex // of what is defined, and of attaching
	sites   []*site
	current unsafe.Pointer // *program; NULL: none
)

// The kernel's CLOCK_MONOTONIC in ns.
//
//go:linkname nanotime runtime.nanotime
//go:noescape
func nanotime() int64

// New defines a probe. The fields of T are whole numbers, bool, uintptr (an address), string, or slices of whole numbers
// and bool (%p in the format), at most ten; each is
// called as it is in T, in small letters, or as its tag `probe:"name"` says. The format is that of printf(3), with one
// directive for each field. New panics, when the program starts, if these do not fit each other. Call it before Attach.
func New[T any](provider, name, format string) *Probe[T] {
	var zero T
	_, file, line, _ := runtime.Caller(1)
	made, err := describe(reflect.TypeOf(zero), provider, name, format, file, line)

	if err != nil {
		panic(fmt.Sprintf("probe %s:%s: %v", provider, name, err))
	}
	lock.Lock()
	defer lock.Unlock()
	if len(sites) == probesMax {
		panic(fmt.Sprintf("probe %s:%s: a program has %d probes at most", provider, name, probesMax))
	}
	made.number = uint32(len(sites))
	sites = append(sites, made)
	return &Probe[T]{made}
}

// On tells whether somebody asks for the probe.
func (probe *Probe[T]) On() bool {
	program := (*program)(atomic.LoadPointer(&current))

	return program != nil && probe.site.number < program.probes &&
		atomic.LoadUint32(program.word32(enabledAt+4*uint64(probe.site.number))) != 0
}

// Emit makes an event, if somebody asks for the probe. Of a string, and of a slice, the first 128 bytes are recorded.
func (probe *Probe[T]) Emit(value T) {
	if probe.On() {
		emit(probe.site, unsafe.Pointer(&value))
	}
}

// ---- What is defined ------------------------------------------------------------------------------

func kindOf(kind reflect.Kind) (uint8, bool) {
	switch kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return kindSigned, true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Bool:
		return kindUnsigned, true
	case reflect.Uintptr:
		return kindPointer, true
	case reflect.String:
		return kindString, true
	}
	return 0, false
}

// The kind and the bytes of a field; a slice's are those of its elements.
func typeOf(of reflect.Type) (kind, bytes uint8, good bool) {
	if of.Kind() == reflect.Slice {
		kind, good = kindOf(of.Elem().Kind())
		good = good && (kind == kindSigned || kind == kindUnsigned)
		return kind + kindArrayOf, uint8(of.Elem().Size()), good
	}
	kind, good = kindOf(of.Kind())
	if kind == kindString {
		return kind, 8, good
	}
	return kind, uint8(of.Size()), good
}

// The letters of the format's directives.
func directives(format string) (letters []byte) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		for i < len(format) && strings.IndexByte("-+ #0123456789.hljzt", format[i]) >= 0 {
			i++
		}
		if i == len(format) {
			return append(letters, 0)
		}
		if format[i] != '%' {
			letters = append(letters, format[i])
		}
	}
	return letters
}

func fits(kind uint8, letter byte) bool {
	switch kind {
	case kindString:
		return letter == 's'
	case kindPointer, kindArrayOf + kindUnsigned, kindArrayOf + kindSigned:
		return letter == 'p'
	}
	return strings.IndexByte("diuxXoc", letter) >= 0
}

func describe(of reflect.Type, provider, name, format, file string, line int) (*site, error) {
	if of == nil || of.Kind() != reflect.Struct || of.NumField() > argsMax {
		return nil, fmt.Errorf("it has a structure of at most %d fields", argsMax)
	}
	letters := directives(format)
	if len(letters) != of.NumField() {
		return nil, fmt.Errorf("its format has %d directives for %d fields", len(letters), of.NumField())
	}
	made := &site{}
	texts := []string{provider, name, format, file}
	types := make([]byte, argsMax+2)
	for i := range letters {
		member := of.Field(i)
		kind, bytes, good := typeOf(member.Type)
		if !good || !fits(kind, letters[i]) {
			return nil, fmt.Errorf("field %s, %s, cannot be printed by %%%c", member.Name, member.Type, letters[i])
		}
		called := member.Tag.Get("probe")
		if called == "" {
			called = strings.ToLower(member.Name)
		}
		types[i] = bytes<<4 | kind
		texts = append(texts, called)
		made.fields = append(made.fields, field{member.Offset, kind, bytes})
	}
	made.entry = pack(texts, types, line)
	return made, nil
}

func pack(texts []string, types []byte, line int) []byte {
	joined := strings.Join(texts, "\x00") + "\x00"
	bytes := (entryBytes + len(joined) + 7) / 8 * 8
	entry := make([]byte, bytes)
	binary.LittleEndian.PutUint32(entry[0:], uint32(bytes))
	binary.LittleEndian.PutUint32(entry[4:], uint32(line))
	binary.LittleEndian.PutUint32(entry[8:], uint32(len(texts)-4))
	copy(entry[12:], types)
	copy(entry[entryBytes:], joined)
	return entry
}

// ---- Rings ----------------------------------------------------------------------------------------

func (program *program) at(offset uint64) unsafe.Pointer {
	return unsafe.Pointer(&program.memory[offset])
}

func (program *program) word32(offset uint64) *uint32 {
	return (*uint32)(program.at(offset))
}

func (program *program) word64(offset uint64) *uint64 {
	return (*uint64)(program.at(offset))
}

func (program *program) ring(i uint32) uint64 {
	return page + uint64(i)*(page+program.size)
}

func load(at unsafe.Pointer, what field) uint64 {
	switch what.bytes {
	case 1:
		if what.kind == kindSigned {
			return uint64(*(*int8)(at))
		}
		return uint64(*(*uint8)(at))
	case 2:
		if what.kind == kindSigned {
			return uint64(*(*int16)(at))
		}
		return uint64(*(*uint16)(at))
	case 4:
		if what.kind == kindSigned {
			return uint64(*(*int32)(at))
		}
		return uint64(*(*uint32)(at))
	}
	return *(*uint64)(at)
}

// Whole characters, up to the first zero, as far as there is room.
func cut(text string) string {
	if len(text) > stringMax {
		end := stringMax
		for end > stringMax-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	if zero := strings.IndexByte(text, 0); zero >= 0 {
		return text[:zero]
	}
	return text
}

// The bytes of a slice's elements as far as there is room, and of all.
func elements(at unsafe.Pointer, bytes uint8) ([]byte, int) {
	slice := (*struct {
		data     unsafe.Pointer
		len, cap int
	})(at)
	all := slice.len * int(bytes)

	if all > stringMax {
		return unsafe.Slice((*byte)(slice.data), stringMax), all
	}
	return unsafe.Slice((*byte)(slice.data), all), all
}

// Behind the words of the fields, from `words` on; where the next one goes.
func attach[T string | []byte](record *[wordsMax]uint64, words, field int, what T) int {
	record[words] = uint64(len(what))<<32 | uint64(field)<<16 | attachment
	for j := 0; j < len(what); j++ {
		record[words+1+j/8] |= uint64(what[j]) << (j % 8 * 8)
	}
	return words + 1 + (len(what)+7)/8
}

// One event: the words of its fields, then its texts and slices.
func emit(site *site, value unsafe.Pointer) {
	var record [wordsMax]uint64
	words := headWords + len(site.fields)

	for i, what := range site.fields {
		at := unsafe.Add(value, what.offset)
		switch {
		case what.kind == kindString:
			text := cut(*(*string)(at))
			record[headWords+i] = uint64(len(text))
			words = attach(&record, words, i, text)
		case what.kind > kindArrayOf:
			bytes, all := elements(at, what.bytes)
			record[headWords+i] = uint64(all)
			words = attach(&record, words, i, bytes)
		default:
			record[headWords+i] = load(at, what)
		}
	}
	record[0] = uint64(words)<<16 | uint64(site.number)
	if program := (*program)(atomic.LoadPointer(&current)); program != nil {
		program.put(record[:words])
	}
}

// In a ring that nobody else holds. If there is none in so many turns, the event is lost, and counted.
func (program *program) put(record []uint64) {
	tid := uint32(syscall.Gettid())
	ring := program.ring(tid % program.rings)

	for turn := 0; turn < tries; turn++ {
		for i := uint32(0); i < program.rings; i++ {
			ring = program.ring((tid + i) % program.rings)
			if atomic.SwapUint32(program.word32(ring+lockAt), 1) == 0 {
				program.putAt(ring, tid, record)
				atomic.StoreUint32(program.word32(ring+lockAt), 0)
				return
			}
		}
		runtime.Gosched()
	}
	atomic.AddUint64(program.word64(ring+lostAt), 1)
}

// The lock is held. The position moves, by one store, when the record is there.
func (program *program) putAt(ring uint64, tid uint32, record []uint64) {
	pos, bytes := atomic.LoadUint64(program.word64(ring)), uint64(len(record))*8
	left := program.size - pos%program.size
	filler := uint64(0)

	if bytes > left {
		filler = left
	}
	lost := program.word64(ring + lostAt)
	if pos+filler+bytes-atomic.LoadUint64(program.word64(ring+consumerAt)) > program.size {
		atomic.AddUint64(lost, 1)
		return
	}
	data := ring + page
	if filler != 0 {
		*program.word64(data + pos%program.size) = filler/8<<16 | pad
		pos += filler
	}
	record[1] = uint64(nanotime())
	record[2] = atomic.LoadUint64(lost)<<32 | uint64(tid)
	copy(unsafe.Slice(program.word64(data+pos%program.size), len(record)), record)
	atomic.StoreUint64(program.word64(ring), pos+bytes)
}

// ---- Attaching ------------------------------------------------------------------------------------

// Attach connects to the daemon, unless the program is connected; whether it is then. Probes that are defined later are
// known from the next connection on. A program may call it again at any time, to find a daemon that was started later.
func Attach() bool {
	lock.Lock()
	defer lock.Unlock()
	was := (*program)(atomic.LoadPointer(&current))
	if was != nil && was.isHeard() {
		return true
	}
	path, given := os.LookupEnv("RINGTAIL_PROGRAMS")
	if !given || isSecure() {
		path = socketPath
	}
	if path == "" || len(sites) == 0 || !littleEndian() {
		return false
	}
	made, err := connect(path)
	if err != nil {
		return false
	}
	// Others may be in the memory of the one before: it stays mapped, and has zeros.
	atomic.StorePointer(&current, unsafe.Pointer(made))
	if was != nil {
		syscall.Madvise(was.memory[page:], madvRemove)
		syscall.Close(was.fd)
	}
	return true
}

// Whether the program may have rights that its user has not: it believes no environment then. Where /proc does not tell,
// it may.
func isSecure() bool {
	vector, _ := os.ReadFile("/proc/self/auxv")

	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.LittleEndian.Uint64(vector) == atSecure {
			return binary.LittleEndian.Uint64(vector[8:]) != 0
		}
	}
	return true
}

func littleEndian() bool {
	return runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"
}

func (program *program) isHeard() bool {
	var byte [1]byte
	got, _, err := syscall.Recvfrom(program.fd, byte[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)

	return err == syscall.EAGAIN || err == syscall.EINTR || (err == nil && got > 0)
}

func connect(path string) (*program, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(wait)
	if err = waitUntil(fd, until); err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = send(fd, table(), until)
	}
	var made *program
	if err == nil {
		made, err = receive(fd, until)
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return made, nil
}

// The next call on it ends by then.
func waitUntil(fd int, until time.Time) error {
	left := time.Until(until)

	if left <= 0 {
		return syscall.ETIMEDOUT
	}
	wait := syscall.NsecToTimeval(int64(left + time.Microsecond))
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &wait); err != nil {
		return err
	}
	return syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait)
}

// Whether the user may look into this process, as for ptrace(2): then the user may see its events.
func isShown() bool {
	header := [2]uint32{0x20080522, 0} // struct __user_cap_header_struct, and two of __user_cap_data_struct
	var rights [6]uint32

	dumpable, _, err := syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_GET_DUMPABLE, 0, 0, 0, 0, 0)
	if err != 0 || dumpable != 1 {
		return false
	}
	_, _, err = syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&rights)), 0)
	return err == 0 && rights[1] == 0 && rights[4] == 0
}

// The hello, and all probes.
func table() []byte {
	hello := make([]byte, helloBytes)
	for _, site := range sites {
		hello = append(hello, site.entry...)
	}
	binary.LittleEndian.PutUint64(hello[0:], magic)
	binary.LittleEndian.PutUint32(hello[8:], version)
	binary.LittleEndian.PutUint32(hello[12:], uint32(len(sites)))
	binary.LittleEndian.PutUint32(hello[16:], uint32(len(hello)-helloBytes))
	binary.LittleEndian.PutUint32(hello[20:], uint32(os.Getpid()))
	if isShown() {
		binary.LittleEndian.PutUint32(hello[28:], shown)
	}
	comm, _ := os.ReadFile("/proc/self/comm")
	copy(hello[32:47], strings.TrimSuffix(string(comm), "\n"))
	return hello
}

func send(fd int, bytes []byte, until time.Time) error {
	for len(bytes) > 0 {
		if err := waitUntil(fd, until); err != nil {
			return err
		}
		sent, err := syscall.SendmsgN(fd, bytes, nil, nil, syscall.MSG_NOSIGNAL)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		bytes = bytes[sent:]
	}
	return nil
}

func receive(fd int, until time.Time) (*program, error) {
	var welcome [24]byte
	var got, controls int
	control := make([]byte, syscall.CmsgSpace(4))
	err := error(syscall.EINTR)

	for err == syscall.EINTR {
		if err = waitUntil(fd, until); err != nil {
			break
		}
		got, controls, _, _, err = syscall.Recvmsg(fd, welcome[:], control, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	memory := descriptor(control[:controls])
	if memory < 0 {
		return nil, syscall.EPROTO
	}
	defer syscall.Close(memory)
	if got != len(welcome) || binary.LittleEndian.Uint64(welcome[0:]) != magic ||
		binary.LittleEndian.Uint32(welcome[8:]) != version || binary.LittleEndian.Uint32(welcome[12:]) != 0 {
		return nil, syscall.EPROTO
	}
	return mapped(fd, memory, binary.LittleEndian.Uint64(welcome[16:]))
}

func mapped(fd, memory int, bytes uint64) (*program, error) {
	at, err := syscall.Mmap(memory, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &program{fd: fd, memory: at, rings: binary.LittleEndian.Uint32(at[12:]),
		size: binary.LittleEndian.Uint64(at[24:]), probes: uint32(len(sites))}, nil
}

// The one that came along; -1: none.
func descriptor(control []byte) int {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil || len(messages) == 0 {
		return -1
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return -1
	}
	return fds[0]
}
