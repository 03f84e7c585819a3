import { expect, test } from 'bun:test'
import { occupancyOf, slotsOf } from '../../src/console/parts/node-facts.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'

interface Given {
  readonly state?: Node['state']
  readonly in_flight: number
  /** Of each runtime: its slots, and whether it takes chats. */
  readonly runtimes: readonly (readonly [slots: number | null, chats: boolean])[]
}
const node = ({ state = 'ready', in_flight, runtimes }: Given) =>
  ({
    state,
    in_flight,
    runtimes: runtimes.map(([slots_total, chats]) => ({ slots_total, models: chats ? [{}] : [] })),
  }) as unknown as Node

test('the slots of a ranker are none of the pool', () => {
  expect(
    slotsOf(
      node({
        in_flight: 0,
        runtimes: [
          [2, true],
          [4, false],
        ],
      }),
    ),
  ).toBe(2)
  expect(slotsOf(node({ in_flight: 0, runtimes: [[4, false]] }))).toBeNull()
  expect(
    slotsOf(
      node({
        in_flight: 0,
        runtimes: [
          [2, true],
          [null, true],
        ],
      }),
    ),
  ).toBeNull()
})

test('slots that are taken are those of the same nodes as the slots they are compared with', () => {
  const nodes = [
    node({ in_flight: 3, runtimes: [[4, true]] }),
    node({
      in_flight: 2,
      runtimes: [
        [6, true],
        [4, false],
      ],
    }),
    // It queues by itself and tells no slots.
    node({ in_flight: 5, runtimes: [[null, true]] }),
    node({ in_flight: 1, runtimes: [[8, true]], state: 'draining' }),
  ]
  expect(occupancyOf(nodes)).toEqual({ inFlight: 11, slots: { taken: 5, all: 10 } })
  expect(occupancyOf(nodes.slice(2))).toEqual({ inFlight: 6, slots: null })
})
