// SPDX-License-Identifier: BSD-2-Clause
//! A program with a probe: four threads make TURNS events each, as `turns TURNS` asks. It says whether it is attached,
//! and at the end what an event took, and one that nobody asks for. With `turns -1` it goes on until it is ended.
use ringtail_probe::{attach, probe};
use std::time::Instant;

const WORKERS: u8 = 4;

fn work(worker: u8, turns: i64) {
    let mut turn = 0i64;
    while turn != turns {
        let text = format!("text of turn {turn}");
        probe!(rust_example, turn_done, "worker %u, turn %ld, %d, %d, at %p: %s", worker: u8, turn: i64,
               below_zero: i32 = -turn as i32, last: bool = turn == turns - 1,
               at: *const u8 = (turn << 12) as *const u8, text: &str = text.as_str());
        turn += 1;
    }
    let marks = [i16::from(worker), -1];
    let sizes: Vec<u32> = (0..40).collect();
    probe!(rust_example, marked, "marks %p, sizes %p", marks: &[i16] = &marks, sizes: &[u32] = &sizes);
}

fn main() {
    let turns = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(10);
    println!("{}", if attach() { "attached" } else { "alone" });
    std::io::stdin().read_line(&mut String::new()).ok();
    let begin = Instant::now();
    let threads: Vec<_> = (0..WORKERS).map(|worker| std::thread::spawn(move || work(worker, turns))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let spent = begin.elapsed();
    let begin = Instant::now();
    for turn in 0..1_000_000i64 {
        probe!(rust_example, never, "turn %ld", turn: i64);
    }
    println!("{:.1} ns an event, {:.2} ns where nobody asks",
             spent.as_nanos() as f64 / (i64::from(WORKERS) * turns) as f64, begin.elapsed().as_nanos() as f64 / 1e6);
}
