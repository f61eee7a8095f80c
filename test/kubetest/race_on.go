//go:build race

package kubetest

// RaceDetector says that this test runs under the race detector; the programs
// that it builds then do so too.
const RaceDetector = true
