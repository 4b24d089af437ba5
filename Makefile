# One command each; every target installs what it needs first. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# Compiled modules are kept, whatever the environment says: each process of a test would compile hundreds of them again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## This list
	@grep -hE '^[a-z][a-z0-9-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: venv
venv: $(VENV)/.installed ## The virtual environment, from the lock file with hashes

# uv where it is installed, venv with pip otherwise; both verify every hash. One that was interrupted begins anew: pip
# cannot go on from half a package.
$(VENV)/.installed: requirements-dev.lock pyproject.toml
	@echo "==> make $(VENV): install the packages of requirements-dev.lock (once)"
	@test ! -e $(VENV)/.unfinished || kill -0 "$$(cat $(VENV)/.unfinished)" 2>/dev/null || rm -rf $(VENV)
	@mkdir -p $(VENV) && echo $$PPID > $(VENV)/.unfinished
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python '>=3.11' $(VENV) && \
	  VIRTUAL_ENV=$(VENV) uv pip sync --quiet --require-hashes requirements-dev.lock; \
	else \
	  test -x $(PY) || $(PYTHON) -m venv $(VENV); \
	  $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock; \
	fi
	@echo "$(CURDIR)/src" > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/openstack_operator_src.pth"
	@printf '#!/bin/sh\nexec "%s" -m openstack_operator.cli "$$@"\n' "$(CURDIR)/$(PY)" > $(VENV)/bin/openstack-operator
	@chmod +x $(VENV)/bin/openstack-operator
	@rm -f $(VENV)/.unfinished
	@touch $@

.PHONY: lock
lock: ## Renews the lock files
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header pyproject.toml -o requirements.lock
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --extra cli --group dev pyproject.toml -o requirements-dev.lock
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --constraints requirements-dev.lock tests/e2e/on_clients/locks/suites.in -o tests/e2e/on_clients/locks/suites.lock
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --only-binary :all: tests/e2e/on_clients/locks/tobiko.in -o tests/e2e/on_clients/locks/tobiko.lock

SAMPLE ?= minimal
# `local`: a registry that is started beside the embedded cluster. Only from the command line: other programs have a
# variable of this name in the environment.
REGISTRY ?=

.PHONY: cloud
cloud: venv ## A real cloud from nothing, and a server in it that answers; SAMPLE=ceph takes another sample, RELEASE=2026.1 another OpenStack, REGISTRY=local pulls images
	$(PY) -m tools.cloud up --sample deploy/samples/controlplane_$(SAMPLE).yaml $(if $(findstring command,$(origin RELEASE)),--release $(RELEASE)) $(if $(findstring command,$(origin REGISTRY)),--registry $(REGISTRY))

.PHONY: proof
proof: venv ## Boots a server in the cloud that runs
	$(PY) -m tools.cloud proof

.PHONY: cloud-down
cloud-down: venv ## Removes the embedded cluster and all in it; caches stay
	$(PY) -m tools.cloud down

.PHONY: lint
lint: style types ## Formatting, lint, types, direction of imports

.PHONY: style
style: venv
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m pyrefly check --summary=none
	$(VENV)/bin/lint-imports
	$(PY) -m tools.checks.language
	$(PY) -m tools.checks.names_in_strings
	$(PY) -m tools.checks.shell
	$(PY) -m tools.checks.advisories

.PHONY: types
types: venv ## The slower type checker, which finds more; .ci/run runs it beside the tests
	$(PY) -m pyright

.PHONY: test
test: venv ## unit, cases, stories, shape, cluster (a real kube-apiserver), and lint with the faster type checker
	$(PY) -m tools.localcluster build --only apiserver
	$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j 2) style layers

.PHONY: check
check: venv ## Lint with the faster type checker, and the tests that need neither a server nor seconds
	$(MAKE) --no-print-directory -j 2 style quick

# Attacks, programs of images and what takes seconds are left to `make test`.
.PHONY: quick
quick: venv
	$(PY) -m pytest -q -n 2 --dist worksteal --durations=5 -m 'not security and not seconds' --ignore-glob='*_served.py' --ignore-glob='*_real.py' tests/unit tests/cases tests/shape

# AGAIN is a program that tries once more what failed: .ci/run sets it.
AGAIN ?=
# A process that has no test left takes over some of the other's. Programs of images and crash points have suites of
# their own: test-programs, test-crash-points. Some tests of tests/cluster wait, for a lease to end or a token to be
# forgotten: one process more than there are cores has something to do meanwhile. Each takes nearly 2 GB with its API
# server.
WORKERS ?= 3
.PHONY: layers
layers: venv
	$(AGAIN) $(PY) -m pytest -q -n $(WORKERS) --dist worksteal --durations=15 --ignore-glob='*_served.py' --ignore-glob='*_real.py' --ignore-glob='*_crash_points.py' --ignore-glob='*_judged.py' tests/unit tests/agents tests/cases tests/stories tests/shape tests/schedules tests/spec_search tests/cluster

.PHONY: test-security
test-security: venv ## Attacks (docs/evidence/attacks.md): hostile resources, Secrets and servers, against a real kube-apiserver where that is asked
	$(PY) -m tools.localcluster build --only apiserver
	OPENSTACK_OPERATOR_LONG=1 $(PY) -m pytest -q -n 2 --dist worksteal -m security tests/unit tests/agents tests/cases tests/shape tests/cluster

# Other inputs each time: a search that fails prints what it failed with.
.PHONY: test-long
test-long: venv ## Searches of `make test` with many inputs in place of few: seeds, examples of hypothesis, Secrets, fuzzing
	$(PY) -m tools.localcluster build --only apiserver
	OPENSTACK_OPERATOR_LONG=1 $(RECORD) $(PY) -m pytest -q -n 2 --dist worksteal --durations=15 -m 'search or hypothesis' tests/unit tests/agents tests/shape tests/schedules tests/spec_search tests/cluster

.PHONY: check-manifests
check-manifests: venv ## kubeconform and kube-score over what the samples and the charts become, helm over charts, OLM's validators over the bundle, promtool over alerts; builds the tools once
	$(PY) -m tools.checks

.PHONY: judged
judged: venv ## Each kind in each of its states, as kstatus and Argo CD call them by their own code
	$(PY) -m tools.localcluster build --only judges
	$(RECORD) $(PY) -m pytest -q -n 0 tests/schedules/test_states_judged.py

# In build/release: manifests and charts that name these images by digest, the wheel, lists of contents, checksums.
.PHONY: release
release: venv ## Pushes all images to REGISTRY= and writes what others install from; COSIGN_KEY= signs
	@test -n "$(REGISTRY)" || { echo "name a registry: make release REGISTRY=registry.example.org/team" >&2; exit 1; }
	$(PY) -m tools.publish $(REGISTRY)

.PHONY: docs
docs: venv ## The documentation as a site in build/site, which opens without a network
	$(PY) -m tools.publish.site

.PHONY: mutants
mutants: venv ## Small faults in the code of the operator and its agents, and which no likely test notices; CPU= seconds, SEED= repeats a sample
	$(RECORD) $(PY) -m tools.checks.mutants $(if $(SEED),--seed $(SEED)) $(if $(CPU),--cpu $(CPU))

SEEDS ?=
export SEEDS

.PHONY: test-seeds
test-seeds: venv ## Manifests that were written before this operator, applied as they stand; SEEDS= names their folder
	@ls $(SEEDS)/*.yaml >/dev/null 2>&1 || { echo "name a folder of manifests: make test-seeds SEEDS=…" >&2; exit 1; }
	$(PY) -m tools.localcluster build --only apiserver
	$(PY) -m pytest -q -n 0 tests/seeds

# A line in docs/evidence/suites.md for each run.
RECORD = $(PY) -m tests.suites run $@ --
# In order, in one process; openstacksdk's warnings are its own affair.
E2E = $(RECORD) $(PY) -m pytest -v --durations=15 -W default -p no:randomly -p no:xdist

.PHONY: test-programs
test-programs: venv ## OpenStack's programs, MariaDB, RabbitMQ and OVN of the images that are built, with the operator's configuration
	@# In order: the tests of a file share servers, and what was written to them.
	$(RECORD) $(PY) -m pytest -q -n 2 --dist loadfile -p no:randomly --durations=15 tests/unit/*_served.py tests/unit/*/*_served.py tests/unit/*/*_real.py

.PHONY: test-crash-points
test-crash-points: venv ## The operator killed again and again, and at four writes of two clouds, of an upgrade and of a restore; make chaos tries each write
	$(PY) -m tools.localcluster build --only apiserver
	$(RECORD) $(PY) -m pytest -q -n 2 --dist worksteal --durations=0 tests/cluster/test_crash_points.py tests/cluster/test_upgrade_crash_points.py tests/cluster/test_restore_crash_points.py

# `make e2e INSTALL=chart` and `INSTALL=kustomize` take the operator from a release in a registry, `make cloud`, too.
export INSTALL

.PHONY: e2e
e2e: venv ## The cloud, its proof, what day two brings, and its removal; the embedded cluster itself; INSTALL=chart installs the chart
	$(E2E) --ignore-glob='tests/e2e/on_*' tests/e2e

.PHONY: e2e-ha
e2e-ha: venv ## The highly available cloud, and the worst of `make chaos`
	$(E2E) tests/e2e/on_ha

.PHONY: e2e-ceph
e2e-ceph: venv ## A cloud on Ceph: volumes, clones, backups, moving servers, and pods killed under writes
	$(E2E) tests/e2e/on_ceph

.PHONY: e2e-tls
e2e-tls: venv ## A cloud that is told to encrypt while it runs, what of it can be read, its certificates and authorities; an hour and a quarter
	$(E2E) tests/e2e/on_tls

.PHONY: e2e-providers
e2e-providers: venv ## Operators of others, built from their modules, and what runs on them
	$(PY) -m tools.operators build
	$(PY) -m tools.localcluster build --only vault
	$(E2E) tests/e2e/on_providers

.PHONY: e2e-cortex
e2e-cortex: venv ## Two compute nodes, a scheduler that Nova asks which of them a server is for, and pods that know theirs
	$(E2E) tests/e2e/on_two

.PHONY: e2e-tempest
e2e-tempest: venv ## A cloud that is tested by Tempest: its smoke set with volumes, also on schedule, all of Identity, Image and Network, the APIs of Barbican, Designate, Heat and Octavia, and each test that is skipped, with the reason
	$(E2E) tests/e2e/on_tempest

.PHONY: e2e-clients
e2e-clients: venv ## A cloud that is tested by its clients: the functional tests of openstacksdk and of the openstack command, the acceptance tests of gophercloud, and each test that does not pass, with the reason
	$(E2E) tests/e2e/on_clients

.PHONY: e2e-identity
e2e-identity: venv ## Thirty runs of Tempest's identity tests by two workers, beside a program that uses a core; two hours
	$(E2E) -s tests/e2e/on_identity

.PHONY: e2e-federation
e2e-federation: venv ## A cloud that is told to let in users of an OpenID provider, in browsers and with tokens, and then not to
	$(E2E) tests/e2e/on_federation

.PHONY: e2e-seeds
e2e-seeds: venv ## Manifests that were written before this operator, each until a server answers; SEEDS= names their folder
	@ls $(SEEDS)/*.yaml >/dev/null 2>&1 || { echo "name a folder of manifests: make e2e-seeds SEEDS=…" >&2; exit 1; }
	$(PY) -m tools.operators build cert-manager pebble mariadb-operator rabbitmq-cluster-operator messaging-topology-operator memcached-operator k-orc
	$(E2E) tests/e2e/on_seeds

.PHONY: e2e-upgrade
e2e-upgrade: venv ## A cloud that is checked, upgraded, taken back and upgraded again, while a user works in it
	$(E2E) tests/e2e/on_upgrade/test_upgrade.py tests/e2e/on_upgrade/test_waves.py

.PHONY: e2e-upgrade-services
e2e-upgrade-services: venv ## A cloud that goes to each release in turn, and one whose optional services are upgraded
	$(E2E) tests/e2e/on_upgrade/test_each_release.py tests/e2e/on_upgrade/test_optional_services.py

.PHONY: e2e-releases
e2e-releases: venv ## A new cloud of 2025.2 and one of 2026.1: the versions of their programs, a server, Tempest's smoke set
	$(E2E) tests/e2e/on_releases

.PHONY: e2e-infrastructure
e2e-infrastructure: venv ## MariaDB from one major version to the next, a cluster of three and a single server, under writers; OVN in a cloud, under pings and ports
	$(E2E) -s tests/e2e/on_infrastructure

.PHONY: e2e-services
e2e-services: venv ## The cloud of controlplane_full.yaml: each service that is off by default, used as its users do
	$(PY) -m tools.localcluster build --only vault
	$(E2E) tests/e2e/on_services

.PHONY: e2e-backup
e2e-backup: venv ## A cloud in a bucket: backed up, deleted with all of its data, and made again by one resource
	$(PY) -m tools.localcluster build --only s3
	$(E2E) tests/e2e/on_backup

.PHONY: e2e-backup-ceph
e2e-backup-ceph: venv ## A cloud on a Ceph, backed up and made again with its volumes, snapshots and disks
	$(PY) -m tools.localcluster build --only s3
	$(E2E) tests/e2e/on_backup_ceph

.PHONY: e2e-backup-services
e2e-backup-services: venv ## A cloud of all services, backed up and made again with secrets, stacks, zones and load balancers
	$(PY) -m tools.localcluster build --only s3
	$(E2E) tests/e2e/on_backup_services

.PHONY: e2e-backup-elsewhere
e2e-backup-elsewhere: venv ## A cloud that moves to another cluster, after the first cluster and its disks were deleted
	$(PY) -m tools.localcluster build --only s3
	$(E2E) tests/e2e/on_backup_elsewhere

.PHONY: e2e-backup-members
e2e-backup-members: venv ## What users notice of backups of a database of three members, and twenty seconds of an archive that went on through faults
	$(PY) -m tools.localcluster build --only s3
	$(E2E) tests/e2e/on_backup_members

.PHONY: e2e-per-service
e2e-per-service: venv ## The cloud of controlplane_per_service.yaml: a RabbitMQ for each service, notifications, locks in etcd, images that are pulled before
	$(E2E) tests/e2e/on_per_service

.PHONY: e2e-reasons
e2e-reasons: venv ## Eleven reasons why a service is not Ready, made in a cloud, and the seconds until its conditions say so
	$(E2E) -s tests/e2e/on_reasons

.PHONY: e2e-registry
e2e-registry: venv ## A cloud whose nodes pull its images, with a login, from a registry started here, and a pod without that login
	$(E2E) tests/e2e/on_registry

.PHONY: e2e-install
e2e-install: venv ## The chart, kustomize, OLM and Flux install the operator from a registry started here, upgrade it and go; a cloud by the chart
	$(PY) -m tools.operators build source-controller helm-controller olm opm
	$(E2E) tests/e2e/on_install

.PHONY: e2e-hypervisors
e2e-hypervisors: venv ## A cloud whose hypervisors know it by two Secrets alone, as those of another cluster do
	$(PY) -m tools.localcluster build --only s3
	$(E2E) tests/e2e/on_hypervisors

.PHONY: chaos
chaos: venv ## The highly available cloud, all that can go wrong with it, and what it cost
	$(PY) -m tools.localcluster build --only apiserver
	$(RECORD) sh -c '\
	  OPENSTACK_OPERATOR_CRASH_POINTS=all $(PY) -m pytest -q tests/cluster/test_crash_points.py tests/cluster/test_upgrade_crash_points.py tests/cluster/test_restore_crash_points.py || exit; \
	  $(PY) -m tools.chaos run; status=$$?; $(PY) -m tools.chaos report && exit $$status'

.PHONY: chaos-services
chaos-services: venv ## The same cloud with each service that is off by default: their pods killed, owned objects deleted, all rolled
	$(RECORD) $(PY) -m tools.chaos run --services --only 1,2,16,18

MINUTES ?= 60
# First servers that are known to break their promises: a search that finds nothing there proves nothing elsewhere.
.PHONY: consistency
consistency: venv ## Appends to lists in a MariaDB of three under crashes, partitions and power cuts, and what of its promises does not hold; MINUTES= for each isolation level
	$(RECORD) sh -c '\
	  $(PY) -m tools.consistency run --keep --minutes 5 --through members --unprotected --must-find || exit; \
	  $(PY) -m tools.consistency run --standing --minutes $(MINUTES) --isolation serializable; status=$$?; \
	  $(PY) -m tools.consistency run --standing --minutes $(MINUTES) || status=$$?; \
	  $(PY) -m tools.localcluster down; exit $$status'

.PHONY: consistency-stores
consistency-stores: MINUTES = 20
consistency-stores: venv ## The same with RabbitMQ's quorum queues, etcd, OVN's northbound database and Valkey; MINUTES= for each
	$(RECORD) sh -c '\
	  for store in rabbitmq etcd ovn valkey; do \
	    $(PY) -m tools.consistency run --store $$store --keep --minutes 6 --through members --unprotected --must-find \
	      --clients 4 --faults partition,crash-all,power-cut || exit; \
	    $(PY) -m tools.consistency run --store $$store --keep --minutes $(MINUTES) || status=1; \
	  done; \
	  $(PY) -m tools.localcluster down; exit $${status:-0}'

.PHONY: bench
bench: venv ## Speed, writes, memory; a table and build/bench.json
	$(PY) -m tools.localcluster build --only apiserver
	$(RECORD) $(PY) -m tools.bench

.PHONY: suites
suites: venv ## When each of the longer suites ran last, as a whole, and green: what never was green first, then the oldest
	@$(PY) -m tests.suites list

.PHONY: dashboards
dashboards: venv ## A monitored cloud from nothing, a page and a picture of each dashboard with its data in build/dashboards; fails if a panel has none
	$(PY) -m tools.dashboards.live --start
	$(PY) -m tools.dashboards.pictures

.PHONY: generate
generate: venv ## CRDs, RBAC and the field reference from the models; dashboards; which test proves which field of c5c3's; the table of suites
	$(VENV)/bin/openstack-operator generate
	$(PY) -m tools.dashboards
	$(PY) -m tests.field_proofs --write
	$(PY) -m images.patches > docs/reference/patches.md
	$(PY) -m tests.evidence_page
