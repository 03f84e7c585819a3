import { expect, test } from 'bun:test'
import { loadMsOf, loadSeen } from '../../../src/machines/placement/loads.ts'
import { place } from '../../../src/machines/rules/placement.ts'
import { nowMs, request, route, table } from '../rules/routes.ts'

const chosen = (...routes: Parameters<typeof route>[]) => {
  const placement = place(table(...routes.map(([name, change]) => route(name, change))), request())
  return placement.kind === 'placed' ? placement.route.nodeId : placement.kind
}

test('§39: an awake model comes before one that dozes, and that before one that must be loaded', () => {
  const dozing = { loaded: false, reading: { cold: true, dozing: true } }
  const cold = { loaded: false, reading: { cold: true } }
  expect(chosen(['cold', cold], ['dozing', dozing])).toBe('node_dozing')
  expect(chosen(['cold', cold], ['dozing', dozing], ['awake', { loaded: true }])).toBe('node_awake')
})

test('§39: what it takes to wake is learnt apart from loads', () => {
  const { reading } = route('a', { reading: { cold: true, dozing: true, loadEwmaMs: 40_000 } }).load
  expect(loadMsOf(reading, null)).toBe(2_000)
  reading.loadStartedAtMs = nowMs
  loadSeen(reading, nowMs + 300)
  expect([reading.rouseEwmaMs, reading.loadEwmaMs, reading.cold, reading.dozing]).toEqual([300, 40_000, false, false])
  reading.cold = true
  reading.dozing = true
  expect(loadMsOf(reading, null)).toBe(300)
  reading.dozing = false
  expect(loadMsOf(reading, null)).toBe(40_000)
})
