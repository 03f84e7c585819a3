import { describe, expect, test } from 'bun:test'
import { NodeWake } from '../../../src/machines/placement/wakes.ts'
import { placementRefusal } from '../../../src/machines/refusals/placement-refusal.ts'
import { place } from '../../../src/machines/rules/placement.ts'
import type { Route, SleepingNode } from '../../../src/machines/rules/routing.ts'
import { nowMs, type RouteChange, request, route, table } from '../rules/routes.ts'

const awake = { nodeState: 'ready', ready: true } as const
function sleeper(
  name: string,
  more: RouteChange = {},
  asleep: Partial<SleepingNode> = {},
  wakeMs: number | null = null,
) {
  const wake = new NodeWake(wakeMs)
  wake.asleep = true
  return route(name, {
    ...{ nodeState: 'asleep', ready: false, asleep: { name, wakeable: true, hours: null, ...asleep } },
    ...more,
    reading: { wake, ...more.reading },
  })
}
const placed = (routes: readonly Route[], change: Parameters<typeof request>[0] = {}) => {
  const placement = place(table(...routes), request(change))
  if (placement.kind === 'placed' || placement.kind === 'asleep') return [placement.kind, placement.route.nodeId]
  return [placement.kind, placement.kind === 'refused' ? placement.code : null]
}

describe('§39: which sleeping node is woken', () => {
  test('none, while an awake one serves, however slow', () => {
    const slow = route('slow', { ...awake, reading: { cold: true, loadEwmaMs: 500_000 } })
    expect(placed([sleeper('a'), slow])).toEqual(['placed', 'node_slow'])
  })

  test('the one that was learnt to wake soonest', () => {
    expect(placed([sleeper('a', {}, {}, 30_000), sleeper('b', {}, {}, 8_000)])).toEqual(['asleep', 'node_b'])
  })

  test('a load after the wake-up counts, too', () => {
    const cold = { reading: { cold: true, loadEwmaMs: 60_000 } }
    expect(placed([sleeper('a', {}, {}, 30_000), sleeper('b', cold, {}, 8_000)])).toEqual(['asleep', 'node_a'])
  })

  test('of a wake-up that is under way only the rest counts', () => {
    const under = sleeper('a', {}, {}, 30_000)
    under.load.reading.wake.begun(nowMs - 25_000)
    expect(placed([under, sleeper('b', {}, {}, 8_000)])).toEqual(['asleep', 'node_a'])
  })

  test('one of a higher rank only where no other may be woken', () => {
    const far = sleeper('far', { rank: 5 }, {}, 1_000)
    expect(placed([far, sleeper('near', {}, {}, 60_000)])).toEqual(['asleep', 'node_near'])
    expect(placed([far, sleeper('near', {}, { wakeable: false })])).toEqual(['asleep', 'node_far'])
  })

  test('after an awake one has failed a sleeping one is what is left', () => {
    const tried = route('tried', awake)
    expect(placed([tried, sleeper('a')], { exclude: [tried.profileId], side: 'own' })).toEqual(['asleep', 'node_a'])
  })

  test('nobody else’s', () => {
    const foreign = sleeper('theirs', { customerId: 'they', visibility: 'public' })
    const open = { account: { min_privacy_class: 'public' }, key: { min_privacy_class: 'public' } } as const
    expect(placed([{ ...foreign, privacyClass: 'public' }], open)).toEqual(['refused', 'no_route_available'])
  })
})

describe('§39: why none is woken', () => {
  const told = (routes: readonly Route[], change: Parameters<typeof request>[0] = {}) => {
    const [at, asked] = [table(...routes), request(change)]
    const placement = place(at, asked)
    if (placement.kind !== 'refused') throw new Error(placement.kind)
    return [placement.code, placementRefusal(at, asked, placement.code).options.detail ?? ''] as const
  }

  test('the policy of the key, or of the account', () => {
    for (const change of [{ key: { allow_wake: false } }, { account: { allow_wake: false } }]) {
      const [code, detail] = told([sleeper('Den')], change)
      expect(code).toBe('node_asleep')
      expect(detail).toStartWith('Only sleeping nodes have m (Den). The policy')
    }
  })

  test('no address', () => {
    expect(told([sleeper('Den', {}, { wakeable: false })])[1]).toContain('No hardware address')
  })

  test('the hours', () => {
    const minute = new Date(nowMs).toISOString().slice(11, 16)
    const [code, detail] = told([sleeper('Den', {}, { hours: `${minute === '00:00' ? '00:01' : '00:00'}-${minute}` })])
    expect(code).toBe('node_asleep')
    expect(detail).toContain('only within')
    expect(placed([sleeper('Den', {}, { hours: `${minute}-23:59` })])[0]).toBe('asleep')
  })
})

describe('§39: a node that does not wake', () => {
  const failing = (name: string, times: number, atMs = nowMs) => {
    const made = sleeper(name, {}, {}, 1_000)
    const { wake } = made.load.reading
    for (let time = 0; time < times; time++) wake.failed(Math.max(atMs, wake.pausedUntilMs))
    return made
  }

  test('is left in peace for a while, which grows to a bound, and all who wait together find that out once', () => {
    const wake = new NodeWake()
    const pauses = Array.from({ length: 9 }, () => {
      const atMs = Math.max(nowMs, wake.pausedUntilMs)
      expect([wake.failed(atMs), wake.failed(atMs + 1)]).toEqual([true, false])
      return (wake.pausedUntilMs - atMs) / 60_000
    })
    expect(pauses).toEqual([2, 4, 8, 16, 32, 64, 120, 120, 120])
    wake.lift()
    expect([wake.inVain, wake.isPaused(nowMs)]).toEqual([0, false])
  })

  test('gives way to one that may, however slow, and refuses where there is none', () => {
    const slow = sleeper('slow', {}, {}, 60_000)
    expect(placed([failing('deaf', 1), slow])).toEqual(['asleep', 'node_slow'])
    expect(placed([failing('deaf', 1)])).toEqual(['refused', 'node_asleep'])
    expect(placed([failing('deaf', 1, nowMs - 120_000)])).toEqual(['asleep', 'node_deaf'])
    const [at, asked] = [table(failing('deaf', 1, nowMs - 90_000)), request({})]
    const { options } = placementRefusal(at, asked, 'node_asleep')
    expect(options.retryAfterSeconds).toBe(30)
    expect(options.detail).toContain('did not wake')
  })
})

test('§39: a wake-up is measured from its first packet, and moves the mean', () => {
  const wake = new NodeWake()
  wake.asleep = true
  expect(wake.leftMs(nowMs)).toBe(20_000)
  wake.begun(nowMs)
  wake.begun(nowMs + 5_000)
  expect(wake.leftMs(nowMs + 5_000)).toBe(15_000)
  expect(wake.woken(nowMs + 9_000)).toBe(9_000)
  expect([wake.asleep, wake.leftMs(nowMs)]).toEqual([false, 0])
  wake.asleep = true
  expect(wake.woken(nowMs)).toBeNull()
  expect(wake.meanMs).toBe(9_000)
})
