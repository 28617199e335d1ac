// SPDX-License-Identifier: BSD-2-Clause
//! Probes of a Rust program, as ringtail-probe.h gives them to one in C. Linux on x86-64 and arm64, without other
//! crates and without generated bindings.
//!
//! ```ignore
//! ringtail_probe::attach();       // whether a daemon listens
//! probe!(app, request_done, "id %u took %u us, %s", id: u32, us: u32 = spent.as_micros() as u32, url: &str);
//! ```
//!
//! In: values. Out: records in memory that ringtaild has made and reads. Any thread. A probe that nobody asks for costs
//! a few loads and a branch, and its values are not evaluated. Nothing is allocated for an event.
use std::cell::Cell;
use std::ffi::c_void;
use std::os::raw::{c_int, c_long};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::io::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

// As in ringtail-probe.h.
const SOCKET: &str = "/run/ringtail/programs.sock";
const MAGIC: u64 = 0x656d6172676f7270;
const VERSION: u32 = 1;
const PROBES_MAX: usize = 512;
/// How many fields a probe has at most.
pub const ARGS_MAX: usize = 10;
const STRING_MAX: usize = 128;
const ARRAY_OF: u8 = 4;
const PAGE: usize = 4096;
const PAD: u64 = 0xffff;
const ATTACHMENT: u64 = 1;
const HEAD_WORDS: usize = 3;
const WORDS_MAX: usize = HEAD_WORDS + ARGS_MAX * (2 + STRING_MAX / 8);
const HELLO_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
const WAIT: Duration = Duration::from_millis(200); // a daemon that does not answer holds a program up for so long
const TRIES: u32 = 64;

// What of libc std has linked, and does not show.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}
#[repr(C)]
struct IoVec {
    base: *mut c_void,
    bytes: usize,
}
#[repr(C)]
struct MsgHdr {
    name: *mut c_void,
    name_bytes: u32,
    vectors: *mut IoVec,
    vector_count: usize,
    control: *mut c_void,
    control_bytes: usize,
    flags: c_int,
}
#[repr(C)]
struct Address {
    family: u16,
    path: [u8; 108],
}
#[repr(C)]
struct Timeval {
    seconds: i64,
    microseconds: i64,
}
extern "C" {
    fn getauxval(what: u64) -> u64;
    fn prctl(what: c_int, ...) -> c_int;
    fn capget(header: *mut u32, rights: *mut u32) -> c_int;
    fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, what: c_int, value: *const c_void, bytes: u32) -> c_int;
    #[link_name = "connect"]
    fn connect_socket(fd: c_int, address: *const Address, bytes: u32) -> c_int;
    fn clock_gettime(clock: c_int, to: *mut Timespec) -> c_int;
    fn gettid() -> c_int;
    fn recv(fd: c_int, to: *mut c_void, bytes: usize, flags: c_int) -> isize;
    fn recvmsg(fd: c_int, message: *mut MsgHdr, flags: c_int) -> isize;
    fn mmap(at: *mut c_void, bytes: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn pthread_atfork(
        before: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}
const CLOCK_MONOTONIC: c_int = 1;
const AT_SECURE: u64 = 23;
const PR_GET_DUMPABLE: c_int = 3;
const SHOWN: u32 = 2; // of the hello's flags: its user may see its events
const AF_UNIX: u16 = 1;
const SOCK_STREAM_CLOEXEC: c_int = 1 | 0o2000000;
const SO_RCVTIMEO: c_int = 20;
const SO_SNDTIMEO: c_int = 21;
const MSG_PEEK: c_int = 2;
const MSG_DONTWAIT: c_int = 0x40;
const MSG_CMSG_CLOEXEC: c_int = 0x40000000;
const SOL_SOCKET: c_int = 1;
const SCM_RIGHTS: c_int = 1;
const READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const MADV_REMOVE: c_int = 9;

// ---- Fields --------------------------------------------------------------------------------------

/// What a field may be: a whole number, `bool`, an address, a text, or a slice of whole numbers.
pub trait Field<'a> {
    /// Its kind and the bytes of a value, or of an element: 0x42 is i32, 0x84 a text, 0x25 of &[u16].
    const TYPE: u8;
    /// The word of a value, and the bytes of a text or a slice.
    fn parts(self) -> (u64, &'a [u8]);
}

macro_rules! integers {
    ($kind:expr, $($name:ty)*) => {$(impl<'a> Field<'a> for $name {
        const TYPE: u8 = (std::mem::size_of::<$name>() as u8) << 4 | $kind;
        fn parts(self) -> (u64, &'a [u8]) {
            (self as u64, &[])
        }
    }
    impl<'a> Field<'a> for &'a [$name] {
        const TYPE: u8 = (std::mem::size_of::<$name>() as u8) << 4 | ($kind + ARRAY_OF);
        fn parts(self) -> (u64, &'a [u8]) {
            let bytes = std::mem::size_of_val(self);
            (bytes as u64, unsafe { std::slice::from_raw_parts(self.as_ptr() as *const u8, bytes) })
        }
    })*};
}
integers!(1, u8 u16 u32 u64 usize bool);
integers!(2, i8 i16 i32 i64 isize);

impl<'a, T> Field<'a> for *const T {
    const TYPE: u8 = 8 << 4 | 3;
    fn parts(self) -> (u64, &'a [u8]) {
        (self as usize as u64, &[])
    }
}

impl<'a> Field<'a> for &'a str {
    const TYPE: u8 = 8 << 4 | 4;
    fn parts(self) -> (u64, &'a [u8]) {
        (0, self.as_bytes())
    }
}

/// The type of a field that is written with it: the macro's.
pub const fn type_of<T: Field<'static>>() -> u8 {
    T::TYPE
}

/// How many directives of a printf(3) format take an argument; and whether texts are where `%s` is.
pub const fn fits(format: &str, types: &[u8]) -> bool {
    let format = format.as_bytes();
    let (mut at, mut field) = (0, 0);
    while at < format.len() {
        if format[at] == b'%' {
            at += 1;
            while at < format.len() && !format[at].is_ascii_alphabetic() && format[at] != b'%' {
                at += 1;
            }
            while at < format.len() && matches!(format[at], b'h' | b'l' | b'z' | b'j' | b't') {
                at += 1;
            }
            if at == format.len() {
                return false;
            }
            if format[at] != b'%' {
                if field == types.len() {
                    return false;
                }
                let good = match types[field] & 15 {
                    4 => format[at] == b's',
                    3 | 5 | 6 => format[at] == b'p',
                    _ => matches!(format[at], b'd' | b'i' | b'u' | b'x' | b'X' | b'o' | b'c'),
                };
                if !good {
                    return false;
                }
                field += 1;
            }
        }
        at += 1;
    }
    field == types.len()
}

/// A place of `probe!`. They lie beside each other, in a section of their own.
#[repr(C)]
pub struct Site {
    pub provider: &'static str,
    pub name: &'static str,
    pub format: &'static str,
    pub file: &'static str,
    pub line: u32,
    pub types: &'static [u8],
    pub fields: &'static [&'static str],
    /// Its number, from 1 on; 0: no daemon has heard of it.
    pub number: AtomicU32,
}

// The linker names the section's ends. The first entry is none: a program without probes links, too.
#[link_section = "rt_rust_sites"]
#[used]
static NO_SITE: Listed = Listed(None);

/// An entry of that section.
#[repr(transparent)]
pub struct Listed(pub Option<&'static Site>);

#[allow(improper_ctypes)]
extern "C" {
    static __start_rt_rust_sites: Listed;
    static __stop_rt_rust_sites: Listed;
}

fn sites() -> impl Iterator<Item = &'static Site> {
    let listed = unsafe {
        let start: *const Listed = &__start_rt_rust_sites;
        let stop: *const Listed = &__stop_rt_rust_sites;
        std::slice::from_raw_parts(start, stop.offset_from(start) as usize)
    };
    unsafe { std::ptr::read_volatile(&NO_SITE.0) }; // so that it is linked
    listed.iter().filter_map(|entry| entry.0).take(PROBES_MAX)
}

/// `probe!(provider, name, "format", field: type, ...)`: an event, if somebody asks for it. A field's value is the
/// variable of that name, or what stands behind `=`. The compiler holds the fields against the printf(3) format.
#[macro_export]
macro_rules! probe {
    ($provider:ident, $name:ident, $format:literal $(, $field:ident : $type:ty $(= $value:expr)?)* $(,)?) => {{
        const TYPES: &[u8] = &[$($crate::type_of::<$type>()),*];
        const _: () = assert!(TYPES.len() <= $crate::ARGS_MAX && $crate::fits($format, TYPES),
                              "the probe's fields do not fit its format");
        static SITE: $crate::Site = $crate::Site {
            provider: stringify!($provider), name: stringify!($name), format: $format, file: file!(), line: line!(),
            types: TYPES, fields: &[$(stringify!($field)),*], number: ::std::sync::atomic::AtomicU32::new(0),
        };
        #[link_section = "rt_rust_sites"]
        #[used]
        static LISTED: $crate::Listed = $crate::Listed(Some(&SITE));
        if $crate::is_wanted(&SITE) {
            $crate::emit(&SITE, &[$({
                let value: $type = $crate::probe!(@value $field $(= $value)?);
                $crate::Field::parts(value)
            }),*]);
        }
    }};
    (@value $field:ident) => { $field };
    (@value $field:ident = $value:expr) => { $value };
}

// ---- Rings ---------------------------------------------------------------------------------------

#[repr(C)]
struct Segment {
    magic: u64,
    version: u32,
    rings: u32,
    first_locked: u32,
    probes: u32,
    ring_bytes: u64,
    counter: u32,
    zero0: [u8; 2012],
    enabled: [AtomicU32; PROBES_MAX],
}

#[repr(C)]
struct Ring {
    producer_pos: AtomicU64,
    lost: AtomicU64,
    lock: AtomicU32,
    zero0: u32,
    zero1: [u64; 5],
    consumer_pos: AtomicU64,
}

/// A connection and its memory; it stays until the process ends, since other threads may be in it.
struct Program {
    socket: UnixStream,
    segment: *const Segment,
    rings: u32,
    size: u64,
}

static PROGRAM: AtomicPtr<Program> = AtomicPtr::new(std::ptr::null_mut());
static ATTACHING: Mutex<()> = Mutex::new(());
static AT_FORK: Once = Once::new();
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    // The thread's number, and after how many forks that was asked.
    static TID: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

fn tid() -> u32 {
    let forks = FORKS.load(Ordering::Relaxed);
    TID.try_with(|known| {
        let (mut tid, at) = known.get();
        if tid == 0 || at != forks {
            tid = unsafe { gettid() } as u32;
            known.set((tid, forks));
        }
        tid
    })
    .unwrap_or_else(|_| unsafe { gettid() } as u32)
}

fn current() -> Option<&'static Program> {
    unsafe { PROGRAM.load(Ordering::Acquire).as_ref() }
}

/// Whether somebody asks for the probe: the macro's.
#[inline]
pub fn is_wanted(site: &Site) -> bool {
    let number = site.number.load(Ordering::Relaxed) as usize;
    match current() {
        Some(program) if number != 0 => unsafe {
            (*program.segment).enabled[number - 1].load(Ordering::Relaxed) != 0
        },
        _ => false,
    }
}

/// Whole characters of a text, up to the first zero, as far as there is room.
fn cut(text: &[u8]) -> &[u8] {
    let mut end = text.len().min(STRING_MAX);
    while end < text.len() && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    let bytes = &text[..end];
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(end)]
}

/// One event: the words of its fields, then its texts and slices. The macro's.
#[cold]
pub fn emit(site: &Site, values: &[(u64, &[u8])]) {
    let mut record = [0u64; WORDS_MAX];
    let mut words = HEAD_WORDS + values.len();
    for (i, (word, bytes)) in values.iter().enumerate() {
        record[HEAD_WORDS + i] = *word;
        let text = match site.types[i] & 15 {
            4 => cut(bytes),
            5 | 6 => &bytes[..bytes.len().min(STRING_MAX)],
            _ => continue,
        };
        if site.types[i] & 15 == 4 {
            record[HEAD_WORDS + i] = text.len() as u64;
        }
        record[words] = (text.len() as u64) << 32 | (i as u64) << 16 | ATTACHMENT;
        words += 1;
        for (j, byte) in text.iter().enumerate() {
            record[words + j / 8] |= u64::from(*byte) << (j % 8 * 8);
        }
        words += (text.len() + 7) / 8;
    }
    let number = site.number.load(Ordering::Relaxed) as u64;
    if let (Some(program), true) = (current(), number != 0) {
        record[0] = (words as u64) << 16 | (number - 1);
        program.put(&mut record[..words]);
    }
}

impl Program {
    fn ring(&self, i: u32) -> *const Ring {
        let at = PAGE + (i % self.rings) as usize * (PAGE + self.size as usize);
        unsafe { (self.segment as *const u8).add(at) as *const Ring }
    }

    /// In a ring that nobody else holds. If there is none in so many turns, the event is lost, and counted.
    fn put(&self, record: &mut [u64]) {
        let tid = tid();
        for _ in 0..TRIES {
            for i in 0..self.rings {
                let ring = unsafe { &*self.ring(tid.wrapping_add(i)) };
                if ring.lock.swap(1, Ordering::Acquire) == 0 {
                    self.put_at(ring, tid, record);
                    ring.lock.store(0, Ordering::Release);
                    return;
                }
            }
            std::thread::yield_now();
        }
        unsafe { (*self.ring(tid)).lost.fetch_add(1, Ordering::Release) };
    }

    /// The lock is held. The position moves, by one store, when the record is there.
    fn put_at(&self, ring: &Ring, tid: u32, record: &mut [u64]) {
        let mut pos = ring.producer_pos.load(Ordering::Relaxed);
        let (bytes, left) = (record.len() as u64 * 8, self.size - pos % self.size);
        let filler = if bytes > left { left } else { 0 };
        if pos + filler + bytes - ring.consumer_pos.load(Ordering::Acquire) > self.size {
            ring.lost.fetch_add(1, Ordering::Release);
            return;
        }
        let data = unsafe { (ring as *const Ring as *mut u8).add(PAGE) };
        let place = |pos: u64| unsafe { data.add((pos % self.size) as usize) as *mut u64 };
        if filler != 0 {
            unsafe { place(pos).write_volatile((filler / 8) << 16 | PAD) };
            pos += filler;
        }
        record[1] = now_ns();
        record[2] = ring.lost.load(Ordering::Relaxed) << 32 | u64::from(tid);
        unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), place(pos), record.len()) };
        ring.producer_pos.store(pos + bytes, Ordering::Release);
    }

    /// Of a daemon that has ended. The addresses stay, and the first page, since other threads may be in them: they find
    /// zeros.
    fn release(&self) {
        let bytes = self.rings as usize * (PAGE + self.size as usize);
        unsafe { madvise((self.segment as *mut u8).add(PAGE) as *mut c_void, bytes, MADV_REMOVE) };
    }

    fn is_heard(&self) -> bool {
        let mut byte = 0u8;
        let to = &mut byte as *mut u8 as *mut c_void;
        let got = unsafe { recv(self.socket.as_raw_fd(), to, 1, MSG_PEEK | MSG_DONTWAIT) };
        let kind = std::io::Error::last_os_error().kind();
        got > 0 || (got < 0 && matches!(kind, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted))
    }
}

fn now_ns() -> u64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut now) };
    now.seconds as u64 * 1_000_000_000 + now.nanoseconds as u64
}

// ---- Attaching -----------------------------------------------------------------------------------

/// Connects to the daemon, unless the program is connected: whether it is. All probes of the program are known then. It
/// may be called at any time again, to find a daemon that was started later. The child of a fork(2) does so by itself.
pub fn attach() -> bool {
    AT_FORK.call_once(|| unsafe {
        pthread_atfork(None, None, Some(forked));
    });
    let _guard = ATTACHING.lock().unwrap_or_else(|held| held.into_inner());
    if current().map_or(false, Program::is_heard) {
        return true;
    }
    let path = path();
    if path.is_empty() || cfg!(not(all(target_os = "linux", target_endian = "little", target_pointer_width = "64"))) {
        return false;
    }
    match connect(&path) {
        Some(program) => {
            let before = PROGRAM.swap(Box::into_raw(Box::new(program)), Ordering::AcqRel);
            if let Some(before) = unsafe { before.as_ref() } {
                let _ = before.socket.shutdown(std::net::Shutdown::Both);
                before.release();
            }
            true
        }
        None => false,
    }
}

/// The child is a process of its own. Its copy of the connection is closed; the parent's stays.
extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let before = PROGRAM.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if let Some(before) = unsafe { before.as_ref() } {
        unsafe { close(before.socket.as_raw_fd()) };
        if ATTACHING.try_lock().is_ok() {
            attach();
        }
    }
}

/// A program that has rights its user has not believes no environment.
fn path() -> Vec<u8> {
    let named = if unsafe { getauxval(AT_SECURE) } != 0 { None } else { std::env::var_os("RINGTAIL_PROGRAMS") };
    named.map_or_else(|| SOCKET.as_bytes().to_vec(), OsStringExt::into_vec)
}

/// The next call on it ends by then; None: that is over. std sets no bound before it connects.
fn wait_until(socket: &UnixStream, until: Instant) -> Option<()> {
    let left = until.checked_duration_since(Instant::now())?;
    let left = Timeval { seconds: 0, microseconds: left.as_micros().clamp(1, 999_999) as i64 };
    for what in [SO_RCVTIMEO, SO_SNDTIMEO] {
        let value = &left as *const Timeval as *const c_void;
        let bytes = std::mem::size_of::<Timeval>() as u32;
        if unsafe { setsockopt(socket.as_raw_fd(), SOL_SOCKET, what, value, bytes) } != 0 {
            return None;
        }
    }
    Some(())
}

fn open(path: &[u8], until: Instant) -> Option<UnixStream> {
    let mut address = Address { family: AF_UNIX, path: [0; 108] };
    if path.len() >= address.path.len() {
        return None;
    }
    address.path[..path.len()].copy_from_slice(path);
    let fd = unsafe { socket(c_int::from(AF_UNIX), SOCK_STREAM_CLOEXEC, 0) };
    if fd < 0 {
        return None;
    }
    let socket = unsafe { UnixStream::from_raw_fd(fd) };
    wait_until(&socket, until)?;
    let bytes = std::mem::size_of::<Address>() as u32;
    let connected = unsafe { connect_socket(fd, &address, bytes) } == 0;
    connected.then_some(socket)
}

fn connect(path: &[u8]) -> Option<Program> {
    let until = Instant::now() + WAIT;
    let mut socket = open(path, until)?;
    let mut probes = Vec::new();
    let mut count = 0u32;
    for site in sites() {
        site.number.store(count + 1, Ordering::Relaxed);
        probes.extend_from_slice(&entry(site));
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let mut table = hello(count, probes.len() as u32);
    table.extend_from_slice(&probes);
    write(&mut socket, &table, until)?;
    wait_until(&socket, until)?;
    let (fd, bytes) = receive(&socket)?;
    let at = unsafe { mmap(std::ptr::null_mut(), bytes as usize, READ_WRITE, MAP_SHARED, fd, 0) };
    unsafe { close(fd) };
    if at as isize == -1 {
        return None;
    }
    let segment = at as *const Segment;
    let (rings, size) = unsafe { ((*segment).rings, (*segment).ring_bytes) };
    Some(Program { socket, segment, rings, size })
}

fn write(socket: &mut UnixStream, mut table: &[u8], until: Instant) -> Option<()> {
    while !table.is_empty() {
        wait_until(socket, until)?;
        match socket.write(table) {
            Ok(sent) => table = &table[sent..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// Whether the user may look into this process, as for ptrace(2): then the user may see its events.
fn is_shown() -> bool {
    let mut header = [0x20080522u32, 0]; // struct __user_cap_header_struct, and two of __user_cap_data_struct
    let mut rights = [0u32; 6];

    let known =
        unsafe { prctl(PR_GET_DUMPABLE) == 1 && capget(header.as_mut_ptr(), rights.as_mut_ptr()) == 0 };
    known && rights[1] == 0 && rights[4] == 0
}

fn hello(probes: u32, bytes: u32) -> Vec<u8> {
    let mut hello = Vec::with_capacity(HELLO_BYTES);
    hello.extend_from_slice(&MAGIC.to_le_bytes());
    for word in [VERSION, probes, bytes, std::process::id(), 0, if is_shown() { SHOWN } else { 0 }] {
        hello.extend_from_slice(&word.to_le_bytes());
    }
    let comm = std::fs::read("/proc/self/comm").unwrap_or_default();
    hello.extend(comm.into_iter().filter(|byte| *byte != b'\n').take(15));
    hello.resize(HELLO_BYTES, 0);
    hello
}

fn entry(site: &Site) -> Vec<u8> {
    let mut texts = Vec::new();
    for text in [site.provider, site.name, site.format, site.file].iter().chain(site.fields) {
        texts.extend_from_slice(text.as_bytes());
        texts.push(0);
    }
    let bytes = (ENTRY_BYTES + texts.len() + 7) / 8 * 8;
    let mut entry = Vec::with_capacity(bytes);
    for word in [bytes as u32, site.line, site.types.len() as u32] {
        entry.extend_from_slice(&word.to_le_bytes());
    }
    entry.extend_from_slice(site.types);
    entry.resize(ENTRY_BYTES, 0);
    entry.extend_from_slice(&texts);
    entry.resize(bytes, 0);
    entry
}

/// The descriptor of the memory, and its bytes.
fn receive(socket: &UnixStream) -> Option<(RawFd, u64)> {
    let mut welcome = [0u64; 3];
    let mut control = [0u64; 3]; // a header, and one descriptor
    let mut vector = IoVec { base: welcome.as_mut_ptr() as *mut c_void, bytes: 24 };
    let mut message = MsgHdr {
        name: std::ptr::null_mut(),
        name_bytes: 0,
        vectors: &mut vector,
        vector_count: 1,
        control: control.as_mut_ptr() as *mut c_void,
        control_bytes: 24,
        flags: 0,
    };
    let got = unsafe { recvmsg(socket.as_raw_fd(), &mut message, MSG_CMSG_CLOEXEC) };
    let (level, kind) = (control[1] as u32 as c_int, (control[1] >> 32) as c_int);
    if got < 0 || message.control_bytes < 20 || (level, kind) != (SOL_SOCKET, SCM_RIGHTS) {
        return None;
    }
    let fd = control[2] as u32 as c_int;
    if got == 24 && welcome[0] == MAGIC && welcome[1] == u64::from(VERSION) {
        return Some((fd, welcome[2]));
    }
    unsafe { close(fd) };
    None
}

const _: () = assert!(std::mem::size_of::<Segment>() == PAGE);
