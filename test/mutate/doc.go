// Package mutate breaks package plugin/zone in many small ways, one at a time,
// and sees whether its tests notice. An edit that no test notices is a test
// that is missing.
//
// The source stays as it is: the go command is handed the edited file by its
// flag -overlay.
package mutate
