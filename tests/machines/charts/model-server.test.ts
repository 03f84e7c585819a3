import { expect, test } from 'bun:test'
import { createActor, SimulatedClock } from 'xstate'
import {
  backoffMaxMs,
  fallingMaxMs,
  type ModelServerEvent,
  type ModelServerTimes,
  modelServerMachine,
  modelServerStateOf,
  steadyMs,
  takesCalls,
} from '../../../src/machines/charts/model-server.ts'
import { type ModelServerState, modelServerStates } from '../../../src/protocol/wire/nodes/agent.ts'

const times: ModelServerTimes = {
  startTimeoutMs: 30_000,
  idleTtlMs: 10_000,
  dozes: false,
  stopGraceMs: 5_000,
  backoffMs: 5_000,
}

/** A chart whose effects are noted, under a clock that only the test moves. */
function begin(given: Partial<ModelServerTimes> = {}) {
  const clock = new SimulatedClock()
  const done: string[] = []
  const machine = modelServerMachine.provide({
    actions: {
      startCommand: () => void done.push('start'),
      sendToSleep: () => void done.push('sleep'),
      wakeUp: () => void done.push('wake'),
      terminateCommand: () => void done.push('terminate'),
      killCommand: () => void done.push('kill'),
    },
  })
  const actor = createActor(machine, { input: { ...times, ...given }, clock })
  const seen: ModelServerState[] = []
  actor.subscribe((snapshot) => {
    const name = modelServerStateOf(snapshot)
    if (seen.at(-1) !== name) seen.push(name)
  })
  actor.start()
  const server = {
    clock,
    done,
    seen,
    at: () => seen.at(-1),
    takesCalls: () => takesCalls(modelServerStateOf(actor.getSnapshot())),
    context: () => actor.getSnapshot().context,
    send: (...types: Exclude<ModelServerEvent['type'], 'call.ended'>[]) => {
      for (const type of types) actor.send({ type })
    },
    callEnds: (opened = true) => actor.send({ type: 'call.ended', opened }),
    fail: () => {
      server.send('load.asked', 'memory.given', 'command.exited')
    },
  }
  return server
}

/** In memory, with one call that it works on. */
function busy(given: Partial<ModelServerTimes> = {}) {
  const server = begin(given)
  server.send('call.began', 'memory.given', 'health.answered', 'call.opened')
  return server
}

/** Asleep after one load. */
function dozing() {
  const server = begin({ dozes: true })
  server.send('load.asked', 'memory.given', 'health.answered', 'unload.asked', 'order.done')
  return server
}

test('§30: the first call loads it: it waits for room, starts, answers, and is idle when its work is done', () => {
  const server = busy()
  expect(server.seen).toEqual(['stopped', 'queued', 'starting', 'ready.idle', 'ready.busy'])
  expect(server.done).toEqual(['start'])
  server.callEnds()
  expect(server.at()).toBe('ready.idle')
  expect(server.context()).toMatchObject({ waiting: 0, working: 0 })
})

test('§30: it leaves memory when nobody has used it for its time, and is stopped when no process is left', () => {
  const server = busy()
  server.clock.increment(times.idleTtlMs ?? 0)
  expect(server.at()).toBe('ready.busy')
  server.callEnds()
  server.clock.increment(9_999)
  expect(server.at()).toBe('ready.idle')
  server.clock.increment(1)
  expect(server.at()).toBe('stopping')
  expect(server.done).toEqual(['start', 'terminate'])
  server.send('command.exited')
  expect(server.at()).toBe('stopped')
})

test('§30: without a time it stays in memory until its room is needed', () => {
  const server = busy({ idleTtlMs: null })
  server.callEnds()
  server.clock.increment(86_400_000)
  expect(server.at()).toBe('ready.idle')
  server.send('evict.asked')
  expect(server.at()).toBe('stopping')
})

test('§30: one with work is never ended: it may be told to take no more, and ends when its work is done', () => {
  const server = busy()
  server.send('evict.asked')
  expect(server.at()).toBe('ready.busy')
  server.send('yield.asked')
  expect(server.at()).toBe('ready.draining')
  expect(server.takesCalls()).toBe(false)
  // Who comes now waits, and the model is loaded again for it.
  server.send('call.began')
  server.callEnds()
  expect(server.at()).toBe('stopping')
  server.send('command.exited')
  expect(server.at()).toBe('queued')
})

test('§30: a load that was accepted is done, whatever happens at the moment', () => {
  const drains = busy()
  drains.send('unload.asked', 'load.asked')
  expect(drains.at()).toBe('ready.draining')
  drains.callEnds()
  expect(drains.at()).toBe('stopping')
  drains.send('command.exited')
  expect(drains.at()).toBe('queued')

  const stops = busy()
  stops.callEnds()
  stops.send('unload.asked', 'load.asked', 'command.exited')
  expect(stops.at()).toBe('queued')

  // The last word counts.
  const undone = busy()
  undone.send('unload.asked', 'load.asked', 'unload.asked')
  undone.callEnds()
  undone.send('load.asked', 'unload.asked', 'command.exited')
  expect(undone.at()).toBe('stopped')

  // A caller that waits for it may leave.
  const queued = begin()
  queued.send('call.began', 'load.asked')
  queued.callEnds(false)
  expect(queued.at()).toBe('queued')
})

test('§30: an operator loads and unloads it', () => {
  const server = begin()
  server.send('load.asked')
  expect(server.at()).toBe('queued')
  server.send('unload.asked')
  expect(server.at()).toBe('stopped')
  server.send('load.asked', 'memory.given', 'unload.asked')
  expect(server.at()).toBe('stopping')
  server.send('command.exited')
  expect(server.at()).toBe('stopped')
  server.send('load.asked', 'memory.given', 'health.answered')
  expect(server.at()).toBe('ready.idle')
  server.send('unload.asked')
  expect(server.at()).toBe('stopping')
})

test('§30: nobody unloads what calls wait for', () => {
  const server = begin()
  server.send('call.began', 'unload.asked')
  expect(server.at()).toBe('queued')
  server.send('memory.given', 'unload.asked')
  expect(server.at()).toBe('starting')
})

test('§30: a call whose caller leaves before there is room loads nothing', () => {
  const server = begin()
  server.send('call.began')
  server.callEnds(false)
  expect(server.at()).toBe('stopped')
  expect(server.done).toEqual([])
})

test('§30: a command that ends by itself fails, with a pause of 5 s that doubles up to 5 min', () => {
  const server = begin()
  for (const pauseMs of [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, backoffMaxMs, backoffMaxMs]) {
    server.fail()
    server.clock.increment(pauseMs - 1)
    expect(server.at()).toBe('failed')
    server.clock.increment(1)
    expect(server.at()).toBe('stopped')
  }
  // An operator need not wait.
  server.fail()
  server.send('load.asked')
  expect(server.at()).toBe('queued')
})

test('§30: a server that has been in memory for a while has a clean record again', () => {
  const server = begin()
  server.fail()
  server.fail()
  expect(server.context().failures).toBe(2)
  server.send('load.asked', 'memory.given', 'health.answered', 'call.began', 'call.opened')
  server.clock.increment(steadyMs - 1)
  expect(server.context().failures).toBe(2)
  server.clock.increment(1)
  expect(server.context().failures).toBe(0)
  server.send('command.exited')
  expect(server.at()).toBe('failed')
  expect(server.context().failures).toBe(1)
})

test('§30: a server that does not start in time is ended and has failed', () => {
  const server = begin()
  server.send('call.began', 'memory.given')
  server.clock.increment(times.startTimeoutMs)
  expect(server.at()).toBe('stopping')
  server.send('command.exited')
  expect(server.at()).toBe('failed')
})

test('§30: a command that does not end when asked is killed', () => {
  const server = busy()
  server.callEnds()
  server.send('unload.asked')
  server.clock.increment(times.stopGraceMs - 1)
  expect(server.done).toEqual(['start', 'terminate'])
  server.clock.increment(1)
  expect(server.done).toEqual(['start', 'terminate', 'kill'])
  expect(server.at()).toBe('stopping')
})

test('§30: it ends with the agent, from every state', () => {
  const events: Partial<Record<ModelServerState, Parameters<ReturnType<typeof begin>['send']>>> = {
    queued: ['call.began'],
    starting: ['call.began', 'memory.given'],
    'ready.idle': ['load.asked', 'memory.given', 'health.answered'],
    'ready.busy': ['call.began', 'memory.given', 'health.answered', 'call.opened'],
    'ready.draining': ['call.began', 'memory.given', 'health.answered', 'call.opened', 'yield.asked'],
    stopping: ['load.asked', 'memory.given', 'health.answered', 'unload.asked'],
    failed: ['load.asked', 'memory.given', 'command.exited'],
  }
  for (const [state, sent] of Object.entries(events)) {
    const server = begin()
    server.send(...sent)
    expect<string | undefined>(server.at()).toBe(state)
    server.send('end.asked')
    if (server.at() === 'stopping') server.send('command.exited')
    expect(server.at()).toBe('stopped')
    // Nothing loads it any more.
    server.send('call.began', 'load.asked')
    expect(server.at()).toBe('stopped')
  }
})

test('§30: one walk through every state', () => {
  const server = begin()
  server.send('call.began', 'memory.given', 'health.answered', 'call.opened', 'yield.asked')
  server.callEnds()
  server.send('command.exited', 'load.asked', 'memory.given', 'command.exited')
  const sleeper = dozing()
  sleeper.send('load.asked', 'memory.given')
  expect(new Set([...server.seen, ...sleeper.seen])).toEqual(new Set(modelServerStates))
})

test('§39: one with requests for it sleeps instead of ending, and wakes once there is room', () => {
  const server = dozing()
  expect(server.seen).toEqual(['stopped', 'queued', 'starting', 'ready.idle', 'falling', 'dozing'])
  expect(server.done).toEqual(['start', 'sleep'])
  server.send('call.began')
  expect(server.at()).toBe('recalled')
  server.send('memory.given')
  expect(server.at()).toBe('waking')
  server.send('order.done', 'call.opened')
  expect(server.at()).toBe('ready.busy')
  expect(server.done).toEqual(['start', 'sleep', 'wake'])
})

test('§39: its idle time, and the need of others for its memory, send it to sleep', () => {
  const server = begin({ dozes: true })
  server.send('load.asked', 'memory.given', 'health.answered')
  server.clock.increment(times.idleTtlMs ?? 0)
  expect(server.at()).toBe('falling')
  server.send('order.done', 'load.asked', 'memory.given', 'order.done', 'evict.asked')
  expect(server.at()).toBe('falling')
})

test('§39: one that does not fall asleep, or not in time, is ended', () => {
  const refusing = begin({ dozes: true })
  refusing.send('load.asked', 'memory.given', 'health.answered', 'unload.asked', 'order.failed')
  expect([refusing.at(), refusing.done.at(-1)]).toEqual(['stopping', 'terminate'])
  const slow = begin({ dozes: true })
  slow.send('load.asked', 'memory.given', 'health.answered', 'unload.asked')
  slow.clock.increment(fallingMaxMs)
  expect(slow.at()).toBe('stopping')
})

test('§39: one that does not wake, or not in time, has failed', () => {
  const refusing = dozing()
  refusing.send('call.began', 'memory.given', 'order.failed', 'command.exited')
  expect(refusing.at()).toBe('failed')
  const slow = dozing()
  slow.send('call.began', 'memory.given')
  slow.clock.increment(times.startTimeoutMs)
  slow.send('command.exited')
  expect(slow.at()).toBe('failed')
})

test('§39: asleep it ends where it is unloaded once more, where others need what it keeps, or with the agent', () => {
  for (const why of ['unload.asked', 'evict.asked', 'end.asked'] as const) {
    const server = dozing()
    server.send(why)
    expect([why, server.at()]).toEqual([why, 'stopping'])
    server.send('command.exited')
    expect(server.at()).toBe('stopped')
  }
  const gone = dozing()
  gone.send('command.exited')
  expect(gone.at()).toBe('stopped')
})

test('§39: two that sleep do not wait for each other: who waits gives up what it keeps, and is loaded anew', () => {
  const server = dozing()
  server.send('call.began', 'evict.asked', 'command.exited')
  expect(server.at()).toBe('queued')
  const left = dozing()
  left.send('call.began')
  left.callEnds(false)
  expect(left.at()).toBe('dozing')
})
