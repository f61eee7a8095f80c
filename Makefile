# One set of build flags for everything: packages built with others are built
# again, and the control plane of the tests is nearly all of Kubernetes.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false $(filter-out -trimpath -buildvcs=%,$(GOFLAGS))
export GOWORK := off

# How long each fuzz target and each benchmark runs.
FUZZTIME ?= 20s
BENCHTIME ?= 1s
# The rows that `make bench` measures, as a regular expression; empty for all.
BENCH_ROWS ?=
# The folder of case files that `make cases` runs.
CASES ?= test/cases

# What --version says.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

MODULES := . test/kube test/tools/lint
LINT := bin/golangci-lint

# What `go build` writes depends on files that make does not know: it is asked
# every time, and does nothing when nothing has changed.
.PHONY: help demo cases test race lint build generate fuzz mutate bench microbench clean kube

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

demo: ## three clusters on this machine, from a ServiceExport to the answer of dig; Ctrl-C ends it
	@go run ./test/demo

cases: kube ## the case files of CASES=test/cases on real control planes, each with its opposites
	go run ./test/cases/cmd/cases $(CASES)

test: kube ## everything that CI tests: unit, integration on real control planes, the demo, documents
	@command -v dig >/dev/null || { echo "make test: dig is missing (Debian and Ubuntu: apt-get install bind9-dnsutils)" >&2; exit 1; }
	go test -shuffle=on -timeout=30m ./...

# Compiles the control plane of the tests, so that no test's time-out has to
# cover that. The tests link it themselves, once per version, as bin/kube-*.
kube:
	@echo "compiling the control plane of the tests (the first time takes minutes)"
	@cd test/kube && go list -export . >/dev/null

race: export CGO_ENABLED := 1
race: ## the race detector over all packages but the demo (needs gcc)
	go test -race -shuffle=on -timeout=30m $$(go list ./... | grep -v -e /test/demo -e /test/docs -e /test/imports)

lint: $(LINT) ## golangci-lint, gofumpt, and go.mod files that are tidy and whole
	$(LINT) run ./...
	cd test/kube && ../../$(LINT) run --config ../../.golangci.yml ./...
	@unformatted=$$(bin/gofumpt -l .) && test -z "$$unformatted" || { echo "not as gofumpt has it: $$unformatted" >&2; exit 1; }
	@set -e; for module in $(MODULES); do echo "go mod tidy -diff, go mod verify: $$module"; (cd $$module && go mod tidy -diff && go mod verify); done

$(LINT): test/tools/lint/go.mod test/tools/lint/go.sum
	cd test/tools/lint && go build -o ../../../bin/ tool
	@touch $@

build: ## bin/mcs-core-dns and bin/syncd
	go build -ldflags='-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

generate: ## deploy/crds out of the mcs-api module
	go test ./deploy/crds -update

fuzz: ## each fuzz target for FUZZTIME (20s)
	@set -e; for file in $$(grep -rl --include='*_test.go' '^func Fuzz' *); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			echo "go test -fuzz=$$target ./$$(dirname $$file)"; \
			go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) ./$$(dirname $$file); \
		done; \
	done

mutate: ## breaks plugin/zone in many small ways; its tests have to notice each
	go run ./test/mutate/cmd/mutate

bench: kube ## speed and memory against CoreDNS's own multicluster, see docs/performance.md; BENCH_ROWS=REGEXP for a few rows
	go run ./test/bench -rows '$(BENCH_ROWS)'

microbench: ## every Go benchmark for BENCHTIME (1s)
	go test -run='^$$' -bench=. -benchmem -benchtime=$(BENCHTIME) $$(grep -rl --include='*_test.go' '^func Benchmark' * | xargs -r -n1 dirname | sort -u | sed 's|^|./|')

clean: ## remove bin
	rm -rf bin
