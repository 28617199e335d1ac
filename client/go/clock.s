// SPDX-License-Identifier: BSD-2-Clause
// Empty: with it the compiler takes a function without a body, which is the runtime's (probe.go).
