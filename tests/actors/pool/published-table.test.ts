import { expect, test } from 'bun:test'
import type { RoutedNode } from '../../../src/actors/pool/nodes/routing-table.ts'
import { PublishedTable } from '../../../src/actors/pool/published-table.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'

function poolOf(nodes: number) {
  const clock = new VirtualClock()
  const row = (at: number) => ({ nodeId: `node_${at}`, name: `Node ${at}`, customerId: 'cus_a' })
  const members = new Map(
    Array.from({ length: nodes }, (_, at) => [
      `node_${at}`,
      { row: row(at), state: 'ready', heldUntilMs: 0, identity: null, rest: null, runtimes: new Map() },
    ]),
  ) as unknown as Map<string, RoutedNode>
  const probing = { on: false }
  const tables = new PublishedTable(
    { nodes: () => members, catalogue: () => new Map(), gathers: () => probing.on, published: () => {} },
    clock,
  )
  let heard = 0
  tables.subscribe(() => heard++)
  return { tables, clock, probing, heard: () => heard }
}

test('a small pool has a table for each change, at once', () => {
  const { tables, heard } = poolOf(200)
  for (let change = 0; change < 10; change++) tables.publish()
  expect(heard()).toBe(10)
})

test('a large pool has a table for its first change at once, and one for all that follow within 50 ms', async () => {
  const { tables, clock, heard } = poolOf(201)
  for (let change = 0; change < 1_000; change++) tables.publish()
  expect(heard()).toBe(1)
  await clock.pass(49)
  expect(heard()).toBe(1)
  await clock.pass(1)
  expect(heard()).toBe(2)
  await clock.pass(50)
  tables.publish()
  expect(heard()).toBe(3)
})

test('who reads the table of a large pool sees every change that came before', () => {
  const { tables } = poolOf(201)
  tables.publish()
  const { version } = tables
  tables.publish()
  expect(tables.version).toBe(version)
  expect(tables.value.version).toBe(version + 1)
})

test('while all nodes answer for the first time, each table waits for others to come', async () => {
  const { tables, clock, probing, heard } = poolOf(3)
  probing.on = true
  tables.publish()
  tables.publish()
  expect(heard()).toBe(0)
  await clock.pass(50)
  expect(heard()).toBe(1)
})

test('to read the last table makes none, so that each poll of a large pool may weigh its models', async () => {
  const { tables, clock, heard } = poolOf(201)
  tables.publish()
  const { version } = tables
  for (let poll = 0; poll < 1_000; poll++) {
    tables.publish()
    expect(tables.last.version).toBe(version)
  }
  await clock.pass(50)
  expect(tables.last.version).toBe(version + 1)
  expect(heard()).toBe(2)
})
