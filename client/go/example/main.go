// SPDX-License-Identifier: BSD-2-Clause

// A program with a probe: four goroutines make TURNS events each, as `example TURNS` asks. It says whether it is
// attached, and at the end what an event took, and one that nobody asks for. With `example -1` it goes on until it is
// ended.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"ringtail/probe"
)

const workers = 4

type turn struct {
	Worker uint8
	Turn   int64
	Below  int32 `probe:"below_zero"`
	Last   bool
	At     uintptr
	Text   string
}

var turnDone = probe.New[turn]("go_example", "turn_done", "worker %u, turn %d, %d, %d, at %p: %s")
var marked = probe.New[struct {
	Marks []int16
	Sizes []uint32
}]("go_example", "marked", "marks %p, sizes %p")
var never = probe.New[struct{ Turn int }]("go_example", "never", "turn %d")

func work(worker uint8, turns int64, done *sync.WaitGroup) {
	defer done.Done()
	for i := int64(0); i != turns; i++ {
		turnDone.Emit(turn{worker, i, int32(-i), i == turns-1, uintptr(i) << 12, "text of turn " + strconv.FormatInt(i, 10)})
	}
	sizes := make([]uint32, 40)
	for i := range sizes {
		sizes[i] = uint32(i)
	}
	marked.Emit(struct {
		Marks []int16
		Sizes []uint32
	}{[]int16{int16(worker), -1}, sizes})
}

func main() {
	var done sync.WaitGroup
	turns := int64(10)

	if len(os.Args) > 1 {
		turns, _ = strconv.ParseInt(os.Args[1], 10, 64)
	}
	if probe.Attach() {
		fmt.Println("attached")
	} else {
		fmt.Println("alone")
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	begin := time.Now()
	for worker := uint8(0); worker < workers; worker++ {
		done.Add(1)
		go work(worker, turns, &done)
	}
	done.Wait()
	spent := time.Since(begin)
	begin = time.Now()
	for i := 0; i < 1000000; i++ {
		never.Emit(struct{ Turn int }{i})
	}
	fmt.Printf("%.1f ns an event, %.2f ns where nobody asks\n", float64(spent.Nanoseconds())/float64(workers*turns),
		float64(time.Since(begin).Nanoseconds())/1e6)
}
