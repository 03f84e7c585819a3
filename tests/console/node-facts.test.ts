import { expect, test } from 'bun:test'
import { occupancyOf, slotsOf } from '../../src/console/parts/node-facts.ts'
import { roomLeft } from '../../src/console/parts/room-left.ts'
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

test('the room left of a model is what the ready nodes that have it can still take, least first', () => {
  const having = (given: Given, ...names: readonly string[]) => ({
    ...node(given),
    runtimes: node(given).runtimes.map((each) => ({ ...each, models: names.map((model) => ({ model, ready: true })) })),
  })
  const found = roomLeft([
    having({ in_flight: 3, runtimes: [[4, true]] }, 'a', 'b'),
    having({ in_flight: 0, runtimes: [[4, true]] }, 'b'),
    // More than it has slots: it has no room, and takes none from others.
    having({ in_flight: 9, runtimes: [[2, true]] }, 'a'),
    having({ in_flight: 0, runtimes: [[8, true]], state: 'draining' }, 'a'),
    having({ in_flight: 0, runtimes: [[null, true]] }, 'b', 'c'),
  ] as unknown as Node[])
  expect(found).toEqual([
    { model: 'a', free: 1, slots: 6, nodes: 2, silent: 0 },
    { model: 'b', free: 5, slots: 8, nodes: 2, silent: 1 },
    { model: 'c', free: 0, slots: 0, nodes: 0, silent: 1 },
  ])
  expect(roomLeft([])).toEqual([])
})
