import { type ChildProcess, spawn } from 'node:child_process'
import { Alarm } from '../../clock.ts'
import { descriptors } from '../../host/descriptors.ts'
import { markVariable } from './marked-processes.ts'

/** Descriptors for the pipe and for starting a program. */
const launchDescriptors = 8
/** A keeper that was killed is started again, but not more often, ms. */
const restartMs = 1_000
/** How long the servers of an agent that was killed may take to end, s. */
const graceSeconds = 5

/**
 * The agent holds the other end of standard input and never writes: `read` returns when the agent is gone, whatever
 * ended it. Everything with the agent's mark in its environment then ends, first asked and then killed. Zombies have an empty environment.
 */
const script = `
marked() {
  if [ -d /proc/self ]; then
    grep -lsF -- "$VARIABLE=$WORD" /proc/[0-9]*/environ | cut -d / -f 3
  else
    ps -axwwE -o pid=,command= | grep -F -- " $VARIABLE=$WORD" | grep -v grep | awk '{ print $1 }'
  fi
}
read -r nothing
pids=$(marked)
[ -n "$pids" ] || exit 0
kill -TERM $pids 2>/dev/null
left=$((${graceSeconds} * 10))
while pids=$(marked) && [ -n "$pids" ]; do
  [ "$left" -gt 0 ] || kill -KILL $pids 2>/dev/null
  left=$((left - 1))
  sleep 0.1
done
`

/** Ends the model servers of an agent that was killed. */
export interface ServerKeeper {
  /** No server is left. */
  stop(): void
}

/** Call before the first server is started. `word`: the prefix of this agent's marks. */
export function keepServers(word: string): ServerKeeper {
  let child: ChildProcess | null = null
  let stopped = false
  const start = () => {
    descriptors.lend(launchDescriptors)
    const startedMs = performance.now()
    // The keeper has its own session, because Ctrl-C in a terminal reaches the agent's whole process group.
    const started = spawn('/bin/sh', ['-c', script], {
      cwd: '/',
      env: { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', VARIABLE: markVariable, WORD: word },
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    started.on('error', () => {})
    started.stdin?.on('error', () => {})
    started.once('exit', () => {
      if (stopped) return
      restart.set(Math.max(0, startedMs + restartMs - performance.now()))
    })
    started.unref()
    child = started
  }
  const restart = new Alarm(start)
  start()
  return {
    stop: () => {
      stopped = true
      restart.clear()
      child?.kill('SIGKILL')
    },
  }
}
