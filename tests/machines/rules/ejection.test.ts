import { describe, expect, test } from 'bun:test'
import {
  afterFailure,
  afterSuccess,
  type EjectionState,
  healthy,
  type RouteFailure,
} from '../../../src/machines/rules/ejection.ts'

const baseMs = 30_000
const startMs = 1_800_000_000_000
const connect: RouteFailure = { cause: 'connect', keyId: 'k1', probeFailing: false }
const error = (keyId: string, probeFailing = false): RouteFailure => ({ cause: 'server_error', keyId, probeFailing })

const fail = (state: EjectionState, failures: readonly RouteFailure[], nowMs = startMs) =>
  failures.reduce((current, failure) => afterFailure(current, failure, nowMs, baseMs), state)
const times = (count: number, failure: RouteFailure) => Array.from({ length: count }, () => failure)

describe('§8 passive ejection', () => {
  test('after 5 failures in a row, for 30 s', () => {
    expect(fail(healthy, times(4, connect)).ejectedUntilMs).toBe(0)
    expect(fail(healthy, times(5, connect)).ejectedUntilMs).toBe(startMs + 30_000)
  })

  test('§30: a model that cannot be loaded ejects at once, for 30 s, doubled each time up to 15 min', () => {
    let state = healthy
    let nowMs = startMs
    for (const seconds of [30, 60, 120, 240, 480, 900, 900]) {
      state = afterFailure(state, { ...connect, cause: 'load' }, nowMs, baseMs)
      expect(state.ejectedUntilMs - nowMs).toBe(seconds * 1_000)
      nowMs = state.ejectedUntilMs
    }
    expect(afterSuccess(state, nowMs)).toBe(healthy)
  })

  test('time-outs and failures to connect count together', () => {
    const mixed = [...times(3, connect), ...times(2, { ...connect, cause: 'timeout' } as RouteFailure)]
    expect(fail(healthy, mixed).ejectedUntilMs).toBe(startMs + 30_000)
  })

  test('a success in between starts the count again', () => {
    const after = afterSuccess(fail(healthy, times(4, connect)), startMs)
    expect(after).toBe(healthy)
    expect(fail(after, times(4, connect)).ejectedUntilMs).toBe(0)
  })

  test('5xx of one key eject nobody: a poison request', () => {
    expect(fail(healthy, times(100, error('k1'))).ejectedUntilMs).toBe(0)
  })

  test('5xx count, the earlier ones too, once two keys saw one', () => {
    expect(fail(healthy, [...times(4, error('k1')), error('k2')]).ejectedUntilMs).toBe(startMs + 30_000)
    expect(fail(healthy, [...times(3, error('k1')), error('k2')]).ejectedUntilMs).toBe(0)
  })

  test('5xx of one key count while the probe fails too', () => {
    expect(fail(healthy, times(5, error('k1', true))).ejectedUntilMs).toBe(startMs + 30_000)
  })

  test('30 s × times ejected, at most 300 s; a success resets', () => {
    let state = healthy
    let nowMs = startMs
    const lengths: number[] = []
    for (let i = 0; i < 12; i++) {
      state = fail(state, times(5, connect), nowMs)
      lengths.push((state.ejectedUntilMs - nowMs) / 1_000)
      nowMs = state.ejectedUntilMs
    }
    expect(lengths).toEqual([30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300])
    state = fail(afterSuccess(state, nowMs), times(5, connect), nowMs)
    expect(state.ejectedUntilMs - nowMs).toBe(30_000)
  })

  test('failures that were under way when it was ejected add nothing', () => {
    const state = fail(healthy, times(5, connect))
    expect(fail(state, times(50, connect), startMs + 1)).toBe(state)
  })

  test('a success lifts the ejection only when its call began after it', () => {
    const state = fail(healthy, times(5, connect))
    expect(afterSuccess(state, startMs - 1)).toBe(state)
    expect(afterSuccess(state, startMs + 1)).toBe(healthy)
  })
})
