import { describe, expect, test } from 'bun:test'
import { createActor, SimulatedClock } from 'xstate'
import { getShortestPaths } from 'xstate/graph'
import { isEligible, nodeMachine, nodeStateOf } from '../../../src/machines/charts/node.ts'
import {
  fallingAsleepMs,
  flappingWindowMs,
  type NodeEvent,
  type NodeThresholds,
  type PowerState,
} from '../../../src/machines/charts/node-events.ts'
import type { NodeState } from '../../../src/machines/rules/routing.ts'

const thresholds: NodeThresholds = {
  staleAfterMs: 15_000,
  offlineAfterMs: 45_000,
  holdDownMs: 300_000,
  drainTimeoutMs: 300_000,
}
const startMs = 1_800_000_000_000
const pollMs = 5_000

/** A node under a clock that only the test moves; times of events are the clock's. */
function startNode() {
  const clock = new SimulatedClock()
  const actor = createActor(nodeMachine, { input: thresholds, clock })
  const seen: NodeState[] = []
  actor.subscribe((snapshot) => {
    const state = nodeStateOf(snapshot)
    if (seen.at(-1) !== state) seen.push(state)
  })
  actor.start()
  const nowMs = () => startMs + clock.now()
  const send = (type: Exclude<NodeEvent['type'], 'poll.answered'>) => actor.send({ type, at: nowMs() })
  const node = {
    send,
    answer: (modelsReady = 1, power: PowerState = null) =>
      actor.send({ type: 'poll.answered', modelsReady, at: nowMs(), power }),
    fail: () => send('poll.failed'),
    refuse: () => send('connection.refused'),
    // In steps: one large increment would start the next state's timer at its end.
    pass: (ms: number) => {
      for (let left = ms; left > 0; left -= 1_000) clock.increment(Math.min(left, 1_000))
    },
    state: () => nodeStateOf(actor.getSnapshot()),
    eligible: () => isEligible(actor.getSnapshot()),
    callsLost: () => actor.getSnapshot().hasTag('callsLost'),
    heldForMs: () => Math.max(0, actor.getSnapshot().context.heldUntilMs - nowMs()),
    seen,
    actor,
  }
  return node
}

function readyNode() {
  const node = startNode()
  node.answer()
  return node
}

const repeat = (times: number, step: () => void) => {
  for (let i = 0; i < times; i++) step()
}

describe('§8 states', () => {
  test('enrolled → live on the first good poll, → ready when a model is ready', () => {
    const node = startNode()
    expect(node.state()).toBe('enrolled')
    node.answer(0)
    expect(node.state()).toBe('live')
    node.pass(pollMs)
    node.answer(1)
    expect(node.state()).toBe('ready')
    expect(node.seen).toEqual(['enrolled', 'live', 'ready'])
  })

  test('at boot and after registration one good poll is enough', () => {
    expect(readyNode().state()).toBe('ready')
  })

  test('a node that never answered stays enrolled, refused or silent', () => {
    const node = startNode()
    node.refuse()
    node.fail()
    node.pass(100_000)
    expect(node.state()).toBe('enrolled')
    node.answer()
    expect(node.state()).toBe('ready')
  })

  test('readiness lost: ready → live, and back with the next poll', () => {
    const node = readyNode()
    node.answer(0)
    expect(node.state()).toBe('live')
    node.answer(2)
    expect(node.state()).toBe('ready')
  })

  test('two failed polls in a row: not ready; one is forgiven', () => {
    const node = readyNode()
    node.fail()
    expect(node.state()).toBe('ready')
    node.answer()
    node.fail()
    expect(node.state()).toBe('ready')
    node.fail()
    expect(node.state()).toBe('live')
    node.answer()
    expect(node.state()).toBe('ready')
  })

  test('stale after 15 s without an answer, offline after 45 s', () => {
    const node = readyNode()
    node.pass(14_999)
    expect(node.state()).toBe('ready')
    node.pass(1)
    expect(node.state()).toBe('stale')
    expect(node.callsLost()).toBe(false)
    node.pass(29_999)
    expect(node.state()).toBe('stale')
    node.pass(1)
    expect(node.state()).toBe('offline')
    expect(node.callsLost()).toBe(true)
  })

  test('each good poll starts the 15 s again', () => {
    const node = readyNode()
    repeat(10, () => {
      node.pass(14_000)
      node.answer()
    })
    expect(node.seen).toEqual(['enrolled', 'ready'])
  })

  test('a live node without a model goes stale too', () => {
    const node = startNode()
    node.answer(0)
    node.pass(15_000)
    expect(node.state()).toBe('stale')
  })

  test('a refused connection makes a ready, live or draining node stale at once', () => {
    const ready = readyNode()
    ready.refuse()
    expect(ready.state()).toBe('stale')
    const live = startNode()
    live.answer(0)
    live.refuse()
    expect(live.state()).toBe('stale')
    const draining = readyNode()
    draining.send('drain.asked')
    draining.refuse()
    expect(draining.state()).toBe('stale')
  })

  test('offline counts from the last answer, also after a refused connection', () => {
    const node = readyNode()
    node.pass(4_000)
    node.refuse()
    node.pass(40_999)
    expect(node.state()).toBe('stale')
    node.pass(1)
    expect(node.state()).toBe('offline')
  })
})

describe('§8 hysteresis', () => {
  test('stale → ready: two good polls in a row', () => {
    const node = readyNode()
    node.refuse()
    node.answer()
    expect(node.state()).toBe('stale')
    node.fail()
    node.answer()
    expect(node.state()).toBe('stale')
    node.answer()
    expect(node.state()).toBe('ready')
  })

  test('offline → ready: three good polls in a row', () => {
    const node = readyNode()
    node.pass(45_000)
    node.answer()
    node.answer()
    node.refuse()
    repeat(2, () => node.answer())
    expect(node.state()).toBe('offline')
    node.answer()
    expect(node.state()).toBe('ready')
  })

  test('a node that has dialled in: one good poll is enough, from stale and from offline', () => {
    for (const silentMs of [15_000, 45_000]) {
      const node = readyNode()
      node.pass(silentMs)
      node.send('tunnel.opened')
      expect(node.eligible()).toBe(false)
      node.answer()
      expect(node.state()).toBe('ready')
    }
  })

  test('a tunnel that broke again before the answer proves nothing, and one answer uses it up', () => {
    const node = readyNode()
    node.refuse()
    node.send('tunnel.opened')
    node.refuse()
    node.answer()
    expect(node.state()).toBe('stale')
    node.answer()
    expect(node.state()).toBe('ready')
    node.refuse()
    node.answer()
    expect(node.state()).toBe('stale')
  })

  test('an answer while stale puts offline off', () => {
    const node = readyNode()
    node.pass(40_000)
    node.answer()
    node.pass(44_999)
    expect(node.state()).toBe('stale')
    node.pass(1)
    expect(node.state()).toBe('offline')
  })

  const flap = (node: ReturnType<typeof readyNode>) => {
    node.answer(0)
    node.answer(1)
  }

  test('four changes of readiness within 10 min: held down for 5 min', () => {
    const node = readyNode()
    flap(node)
    expect(node.heldForMs()).toBe(0)
    node.answer(0)
    expect(node.heldForMs()).toBe(0)
    node.answer(1)
    expect(node.heldForMs()).toBe(300_000)
    expect(node.eligible()).toBe(true)
  })

  test('changes older than 10 min do not count', () => {
    const node = readyNode()
    flap(node)
    repeat(flappingWindowMs / 10_000, () => {
      node.pass(10_000)
      node.answer()
    })
    flap(node)
    expect(node.heldForMs()).toBe(0)
  })

  test('silence and recovery are changes, the operator drain and resume are none', () => {
    const silent = readyNode()
    repeat(2, () => {
      silent.pass(15_000)
      repeat(2, () => silent.answer())
    })
    expect(silent.heldForMs()).toBe(300_000)
    const drained = readyNode()
    repeat(3, () => {
      drained.send('drain.asked')
      drained.send('resume.asked')
    })
    expect(drained.state()).toBe('ready')
    expect(drained.heldForMs()).toBe(0)
  })
})

describe('§8 draining', () => {
  test('ready → draining → live when the calls have ended, ready again only after resume', () => {
    const node = readyNode()
    node.send('drain.asked')
    expect(node.state()).toBe('draining')
    node.answer()
    node.send('calls.drained')
    expect(node.state()).toBe('live')
    node.answer()
    expect(node.state()).toBe('live')
    node.send('resume.asked')
    expect(node.state()).toBe('ready')
  })

  test('at most 300 s, however often the node answers', () => {
    const node = readyNode()
    node.send('drain.asked')
    repeat(59, () => {
      node.pass(pollMs)
      node.answer()
    })
    expect(node.state()).toBe('draining')
    node.pass(pollMs)
    expect(node.state()).toBe('live')
  })

  test('resume before the end: ready', () => {
    const node = readyNode()
    node.send('drain.asked')
    node.send('resume.asked')
    expect(node.state()).toBe('ready')
  })

  test('a draining node that falls silent goes stale, and drains on when it comes back', () => {
    const node = readyNode()
    node.send('drain.asked')
    node.pass(15_000)
    expect(node.state()).toBe('stale')
    repeat(2, () => node.answer())
    expect(node.state()).toBe('draining')
    repeat(30, () => {
      node.pass(9_500)
      node.answer()
    })
    expect(node.state()).toBe('live')
  })

  test('asked before the node was ever seen: it never takes work', () => {
    const node = startNode()
    node.send('drain.asked')
    node.answer()
    expect(node.seen).toEqual(['enrolled', 'draining'])
  })
})

describe('§39 asleep', () => {
  test('its agent says so: its silence is no failure, however long, and one answer brings it back', () => {
    const node = readyNode()
    node.answer(0, 'asleep')
    expect(node.state()).toBe('asleep')
    node.pass(10_000)
    node.answer(0, 'asleep')
    expect([node.state(), node.eligible(), node.callsLost()]).toEqual(['asleep', false, false])
    node.refuse()
    expect(node.callsLost()).toBe(true)
    node.pass(1_000_000)
    node.fail()
    expect(node.state()).toBe('asleep')
    node.answer(1, 'awake')
    expect(node.state()).toBe('ready')
  })

  test('sleep and waking never count as flapping', () => {
    const node = readyNode()
    repeat(6, () => {
      node.answer(0, 'asleep')
      node.refuse()
      node.pass(pollMs)
      node.answer(1, 'awake')
    })
    expect([node.state(), node.heldForMs()]).toEqual(['ready', 0])
  })

  test('an operator says so: polls that are still answered change nothing for a minute, and a node that goes on is awake', () => {
    const node = readyNode()
    node.send('sleep.told')
    for (let ms = 0; ms < fallingAsleepMs - pollMs; ms += pollMs) {
      node.pass(pollMs)
      node.answer()
      expect([node.state(), node.callsLost()]).toEqual(['asleep', false])
    }
    node.pass(pollMs)
    node.answer()
    expect(node.state()).toBe('ready')
  })

  test('a node that somebody wakes is awake with its first answer, even before it has fallen asleep', () => {
    const node = readyNode()
    node.send('sleep.told')
    node.actor.send({ type: 'poll.answered', modelsReady: 1, at: startMs + 1, wanted: true })
    expect(node.state()).toBe('ready')
  })

  test('another gateway has seen it awake: one answer is enough here, and without one it is away', () => {
    const [seen, away] = [readyNode(), readyNode()]
    for (const node of [seen, away]) {
      node.send('sleep.told')
      node.refuse()
      node.pass(100_000)
      node.send('sleep.over')
    }
    seen.answer()
    expect(seen.state()).toBe('ready')
    expect(away.state()).toBe('stale')
    away.pass(45_000)
    expect(away.state()).toBe('offline')
  })

  test('one failed poll is forgiven while it falls asleep; the second ends what runs there', () => {
    const node = readyNode()
    node.send('sleep.told')
    node.fail()
    expect(node.callsLost()).toBe(false)
    node.fail()
    expect([node.state(), node.callsLost()]).toEqual(['asleep', true])
    node.answer()
    expect(node.state()).toBe('ready')
  })

  test('it may be told of a node that has been away for long', () => {
    const node = readyNode()
    node.pass(100_000)
    expect(node.state()).toBe('offline')
    node.send('sleep.told')
    expect(node.state()).toBe('asleep')
    node.answer()
    expect(node.state()).toBe('ready')
  })

  test('a drain that was asked for while it slept begins when it wakes', () => {
    const node = readyNode()
    node.send('sleep.told')
    node.send('drain.asked')
    node.refuse()
    node.answer()
    expect(node.state()).toBe('draining')
  })
})

describe('§39 yielding', () => {
  test('nothing new comes, what runs goes on, and it is back with the word of its agent', () => {
    const node = readyNode()
    node.answer(0, 'yielding')
    expect([node.state(), node.eligible(), node.callsLost()]).toEqual(['yielding', false, false])
    node.pass(pollMs)
    node.answer(0, 'yielding')
    expect(node.state()).toBe('yielding')
    node.answer(1, 'awake')
    expect(node.state()).toBe('ready')
    expect(node.heldForMs()).toBe(0)
  })

  test('a node that yields and falls silent is stale, as any other', () => {
    const node = readyNode()
    node.answer(0, 'yielding')
    node.pass(15_000)
    expect(node.state()).toBe('stale')
  })

  test('a computer that yields may fall asleep', () => {
    const node = readyNode()
    node.answer(0, 'yielding')
    node.answer(0, 'asleep')
    expect(node.state()).toBe('asleep')
  })
})

test('§8: revoke is terminal from every state, and no timer is left', () => {
  const reach: Record<Exclude<NodeState, 'revoked'>, () => ReturnType<typeof startNode>> = {
    enrolled: startNode,
    live: () => {
      const node = startNode()
      node.answer(0)
      return node
    },
    ready: readyNode,
    draining: () => {
      const node = readyNode()
      node.send('drain.asked')
      return node
    },
    stale: () => {
      const node = readyNode()
      node.refuse()
      return node
    },
    yielding: () => {
      const node = readyNode()
      node.answer(0, 'yielding')
      return node
    },
    asleep: () => {
      const node = readyNode()
      node.send('sleep.told')
      return node
    },
    offline: () => {
      const node = readyNode()
      node.pass(45_000)
      return node
    },
  }
  for (const [state, make] of Object.entries(reach)) {
    const node = make()
    expect(node.state()).toBe(state as NodeState)
    expect(node.eligible()).toBe(state === 'ready')
    node.send('revoke.asked')
    node.answer()
    node.pass(1_000_000)
    expect(node.state()).toBe('revoked')
    expect(node.callsLost()).toBe(true)
    expect(node.actor.getSnapshot().status).toBe('done')
  }
})

test('every state of the chart is reachable by its events', () => {
  const at = startMs
  const events = [
    { type: 'poll.answered', modelsReady: 1, at },
    { type: 'poll.answered', modelsReady: 0, at },
    { type: 'poll.answered', modelsReady: 0, at, power: 'yielding' },
    { type: 'poll.answered', modelsReady: 0, at, power: 'asleep' },
    { type: 'connection.refused', at },
    { type: 'drain.asked', at },
    { type: 'revoke.asked', at },
    { type: 'xstate.after.longSilence.node.stale.silent' },
  ]
  const paths = getShortestPaths(nodeMachine, {
    input: thresholds,
    events: events as NodeEvent[],
    serializeState: (snapshot) =>
      `${JSON.stringify(snapshot.value)} ${(snapshot as { context: { drain: string } }).context.drain}`,
    limit: 10_000,
  })
  const reached = new Set(paths.map((path) => nodeStateOf(path.state)))
  const all: readonly string[] = [...reached].sort()
  expect(all.join(' ')).toBe('asleep draining enrolled live offline ready revoked stale yielding')
  expect(Object.keys(nodeMachine.states).sort()).toEqual([...all])
})
