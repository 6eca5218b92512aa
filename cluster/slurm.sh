#!/usr/bin/env bash
# A real Slurm of two nodes on this machine, for tests: each node in a network namespace of its own, joined by links of
# a given speed. As root, with Debian's slurm-wlm, munge and iproute2.
#
#   slurm.sh up          set it up and wait until both nodes are idle
#   slurm.sh down        end it and take the namespaces away
#   slurm.sh rate RATE   the links' speed, such as 100mbit, 1gbit, 10gbit
#   slurm.sh run COMMAND within the cluster's network, where Slurm's commands find it
#   slurm.sh at NODE COMMAND  within a node's network: at node2 ip link set eth-node2 down
#   slurm.sh start NODE  its slurmd
#
# STATE=FOLDER is where it keeps its files (default /run/tbd-cluster), RATE=1gbit the links' speed.
set -euo pipefail
STATE=${STATE:-/run/tbd-cluster}
RATE=${RATE:-1gbit}
export SLURM_CONF=$STATE/slurm.conf

# nsenter, not `ip netns exec`, which hides the control groups
within() { nsenter --net=/run/netns/tbd-"$1" "${@:2}"; }

link() { # NAMESPACE INTERFACE ADDRESS: a cable from the namespace to the switch
  ip link add "$2" netns tbd-"$1" type veth peer name to-"$1" netns tbd-switch
  within switch ip link set to-"$1" master bridge up
  within "$1" ip addr add "$3"/24 dev "$2"
  within "$1" ip link set "$2" up
}

# What a link lets through at once is what it carries in half a millisecond, 16 KB at least: more would be a part of the
# bytes of a training step that costs no time.
rate() {
  local mbit burst
  case $1 in
    *gbit) mbit=$((${1%gbit} * 1000)) ;;
    *mbit) mbit=${1%mbit} ;;
    *) echo "rate $1: as 100mbit or 10gbit" >&2; exit 2 ;;
  esac
  burst=$((mbit * 1000000 / 8 / 2000))
  [ "$burst" -ge 16384 ] || burst=16384
  for node in 1 2; do
    within node$node tc qdisc replace dev eth-node$node root tbf rate "${mbit}mbit" burst "${burst}b" latency 50ms
  done
}

down() {
  for daemon in slurmd-node1 slurmd-node2 slurmctld; do
    if [ -f "$STATE/$daemon.pid" ]; then kill "$(cat "$STATE/$daemon.pid")" 2>/dev/null || true; fi
  done
  sleep 1
  for name in node1 node2 controller switch; do
    if [ -e /run/netns/tbd-$name ]; then ip netns del tbd-$name; fi
  done
  rm -rf "$STATE"
}

configuration() {
  local host
  host=$(hostname -s)
  cat <<CONF
ClusterName=tbd
SlurmctldHost=$host(198.18.0.10)
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$STATE/state
SlurmdSpoolDir=$STATE/spool/%n
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/slurmd-%n.pid
SlurmctldLogFile=$STATE/log/slurmctld.log
SlurmdLogFile=$STATE/log/slurmd-%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=5
KillWait=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=node1 NodeHostname=$host NodeAddr=198.18.0.11 Port=17001 CPUs=2 RealMemory=1000
NodeName=node2 NodeHostname=$host NodeAddr=198.18.0.12 Port=17002 CPUs=2 RealMemory=1000
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
}

# A daemon keeps open what it is started with, such as the lock file of a caller
daemon() { (for open in /proc/self/fd/*; do n=${open##*/}; [ "$n" -le 2 ] || eval "exec $n>&-"; done; exec "$@"); }

start() { daemon nsenter --net=/run/netns/tbd-"$1" slurmd -N "$1"; }

up() {
  for command in slurmctld slurmd munged tc nsenter; do
    PATH=$PATH:/usr/sbin:/sbin command -v $command >/dev/null || { echo "$command is not here: apt-get install slurm-wlm munge iproute2" >&2; exit 1; }
  done
  [ "$(id -u)" = 0 ] || { echo "namespaces and Slurm's daemons need root" >&2; exit 1; }
  down
  mkdir -p "$STATE"/{state,spool,log}
  configuration > "$SLURM_CONF"
  if ! munge --no-input >/dev/null 2>&1; then
    install -d -o munge -g munge -m 755 /run/munge
    daemon runuser -u munge -- /usr/sbin/munged --force
  fi
  for name in switch controller node1 node2; do
    ip netns add tbd-$name
    within $name ip link set lo up
  done
  within switch ip link add bridge type bridge
  within switch ip link set bridge up
  link controller eth-ctl 198.18.0.10
  link node1 eth-node1 198.18.0.11
  link node2 eth-node2 198.18.0.12
  rate "$RATE"
  daemon nsenter --net=/run/netns/tbd-controller slurmctld
  for node in 1 2; do start node$node; done
  for _ in $(seq 120); do
    if within controller sinfo --noheader --format "%T %D" 2>/dev/null | grep -q "idle 2"; then exit 0; fi
    sleep 0.25
  done
  within controller sinfo >&2 || true
  exit 1
}

case "${1:-}" in
  up) up ;;
  down) down ;;
  rate) rate "$2" ;;
  run) within controller "${@:2}" ;;
  at) within "${@:2}" ;;
  start) start "$2" ;;
  *) sed -n '2,14p' "$0"; exit 2 ;;
esac
