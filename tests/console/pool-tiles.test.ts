import { describe, expect, test } from 'bun:test'
import { groupHeadPx, heightOf, tileGapPx, tileSizeOf } from '../../src/console/views/pool-map/tile-size.ts'
import {
  barOf,
  groupsOf,
  headroomOf,
  markOf,
  memoryOf,
  stepOf,
  stepWords,
  tileOf,
} from '../../src/console/views/pool-map/tiles.ts'
import { besides } from '../../src/console/views/pool-map/walk.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'

interface Given
  extends Partial<
    Pick<Node, 'name' | 'state' | 'admin_state' | 'in_flight' | 'node_class' | 'customer_id' | 'hardware'>
  > {
  readonly slots?: number | null
  /** Of its last first token. */
  readonly ms?: number
  readonly models?: readonly object[]
}
function node({ name = 'n', slots = 4, ms, models, ...more }: Given = {}): Node {
  const first = ms === undefined ? null : { ms, at: '2026-01-01T00:00:00Z', of: 1 }
  const usual = [{ model: 'a', ready: true, loaded: null, memory_mb: null, first_token: first }]
  return {
    node_id: `id-${name}`,
    name,
    state: 'ready',
    admin_state: 'active',
    in_flight: 0,
    node_class: 'gpu',
    customer_id: null,
    runtimes: [{ slots_total: slots, models: models ?? usual }],
    ...more,
  } as unknown as Node
}

describe('what a tile says', () => {
  test('the colour of headroom is the free share of its slots, and none where nothing can be free', () => {
    const of = (given: Given) => stepOf(node(given), 'headroom')
    expect([0, 1, 2, 3, 4, 9].map((taken) => of({ in_flight: taken }))).toEqual([0, 0, 1, 2, 4, 4])
    expect(of({ slots: 8, in_flight: 7 })).toBe(3)
    expect(headroomOf(node({ in_flight: 9 }))).toBe(0)
    for (const given of [{ slots: null }, { slots: 0 }, { state: 'draining' }, { state: 'offline' }] as const)
      expect([given, of(given)]).toEqual([given, null])
    expect(stepWords('headroom')).toHaveLength(5)
  })

  test('the colour of a first token is what was measured, and none where nothing was or the node is away', () => {
    const of = (given: Given) => stepOf(node(given), 'first_token')
    expect([100, 250, 251, 900, 2_500, 2_501].map((ms) => of({ ms }))).toEqual([0, 0, 1, 2, 3, 4])
    expect([of({}), of({ ms: 100, state: 'offline' }), of({ ms: 100, state: 'draining' })]).toEqual([null, null, 0])
    expect(stepWords('first_token')).toHaveLength(5)
  })

  test('draining and away nodes have marks of their own', () => {
    const of = (state: Node['state']) => markOf(node({ state }))
    expect((['ready', 'draining', 'asleep', 'offline', 'revoked'] as const).map(of)).toEqual([
      'ready',
      'draining',
      'unready',
      'away',
      'away',
    ])
    const drained = (state: Node['state']) => node({ state, admin_state: 'draining' })
    expect([markOf(drained('live')), markOf(drained('offline'))]).toEqual(['draining', 'away'])
    expect(tileOf(drained('live'), 'headroom')).toMatchObject({ step: null, says: 'n a, live, drained' })
  })

  test('memory is that of GPUs, else of the computer, and absent where its size is not told', () => {
    const loaded = [
      { model: 'a', ready: true, loaded: true, memory_mb: 2_048, first_token: null },
      { model: 'b', ready: true, loaded: true, memory_mb: 1, resident_mb: 4_096, first_token: null },
      { model: 'cold', ready: true, loaded: false, memory_mb: 9_999, first_token: null },
    ]
    const gpus = [
      { name: 'x', memory_total_mb: 8_192, memory_used_mb: 6_144 },
      { name: 'y', memory_total_mb: 8_192, memory_used_mb: 2_048 },
    ]
    const memory = memoryOf(node({ models: loaded, hardware: { gpus, memory_total_mb: 65_536 } }))
    expect(memory).toEqual({
      totalMb: 16_384,
      usedMb: 8_192,
      models: [
        { model: 'b', mb: 4_096 },
        { model: 'a', mb: 2_048 },
      ],
    })
    expect(memory && barOf(memory)).toEqual({ models: 38, taken: 50 })
    const computer = { gpus: [{ name: 'x' }], memory_total_mb: 4_096 }
    expect(memoryOf(node({ hardware: computer }))).toEqual({ totalMb: 4_096, usedMb: null, models: [] })
    expect(memoryOf(node({ hardware: { load_percent: 3 } }))).toBeNull()
    expect(barOf({ totalMb: 10, usedMb: 900, models: [{ model: 'a', mb: 20 }] })).toEqual({ models: 100, taken: 100 })
    expect(tileOf(node({ name: 'rack', models: loaded, hardware: { gpus }, in_flight: 1 }), 'headroom')).toEqual({
      id: 'id-rack',
      name: 'rack',
      mark: 'ready',
      step: 0,
      models: 'a, b',
      barModels: 38,
      barTaken: 50,
      says: 'rack a, b, ready, 3 of 4 slots free, 8 GB of 16 GB of memory taken: b 4 GB, a 2 GB',
    })
    expect(tileOf(node({ slots: null }), 'headroom').says).toBe('n a, ready')
  })
})

test('groups stand largest first and nodes by name, two owners of one name apart', () => {
  const nodes = [
    node({ name: 'n10', node_class: 'x', customer_id: 'cus_1' }),
    node({ name: 'n9', node_class: 'x', customer_id: 'cus_2', state: 'offline' }),
    node({ name: 'n1', node_class: 'y', customer_id: 'cus_2' }),
  ]
  const names = (grouping: 'class' | 'owner', owners: ReadonlyMap<string, string> = new Map()) =>
    groupsOf(nodes, grouping, owners).map(({ title, nodes: of }) => [title, ...of.map(({ name }) => name)])
  expect(names('class')).toEqual([
    ['x', 'n9', 'n10'],
    ['y', 'n1'],
  ])
  const same = new Map([
    ['cus_1', 'Ada'],
    ['cus_2', 'Ada'],
  ])
  expect(names('owner', same)).toEqual([
    ['Ada', 'n1', 'n9'],
    ['Ada', 'n10'],
  ])
  expect(names('owner')[0]?.[0]).toBe('cus_2')
})

describe('the size of tiles', () => {
  test('the largest with which all fit: words for few nodes, squares for 2,000, a finger’s width on a phone', () => {
    expect(tileSizeOf([12], 1_240, 560).words).toBe(true)
    const many = tileSizeOf([1_500, 500], 1_240, 560)
    expect([many.words, many.width >= 14, heightOf([1_500, 500], 1_240, many) <= 560]).toEqual([false, true, true])
    expect(tileSizeOf([2_000], 335, 400).width).toBe(24)
    expect(tileSizeOf([5_000], 1_240, 100).width).toBe(12)
  })

  test('small groups share a line, and a group that does not fit beside them begins one', () => {
    const size = { width: 48, height: 48, words: false }
    const one = groupHeadPx + 48 + tileGapPx
    expect(heightOf([2, 2, 2], 400, size)).toBe(one)
    expect(heightOf([2, 2, 2, 2], 400, size)).toBeGreaterThan(2 * one)
    expect(heightOf([], 400, size)).toBe(0)
  })
})

test('arrows lead along a row and to the nearest tile of the next, and stop at the edges', () => {
  const at = (left: number, top: number) => ({ getBoundingClientRect: () => ({ left, top }) })
  const tiles = [at(0, 0), at(20, 0), at(40, 0), at(0, 20), at(0, 60), at(30, 60)]
  const to = (from: number, key: string) => besides(tiles, from, key)
  expect([to(0, 'ArrowRight'), to(5, 'ArrowRight'), to(0, 'ArrowLeft'), to(3, 'ArrowLeft')]).toEqual([1, 5, 0, 2])
  expect([to(2, 'ArrowDown'), to(3, 'ArrowDown'), to(5, 'ArrowDown')]).toEqual([3, 4, 5])
  expect([to(5, 'ArrowUp'), to(3, 'ArrowUp'), to(1, 'ArrowUp')]).toEqual([3, 0, 1])
  expect([to(3, 'Home'), to(3, 'End'), to(3, 'Enter')]).toEqual([0, 5, null])
})
