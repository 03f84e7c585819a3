import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorAlerts, errorShare, forMinutes, windowMinutes } from '../../src/console/views/traffic/error-alerts.ts'

const minuteMs = 60_000
/** A hundred requests a minute, of which so many failed. */
const minutesOf = (failed: readonly number[], requests = 100) =>
  failed.map((each, at) => ({ atMs: at * minuteMs, requests, failed: each }))
const firedAt = (failed: readonly number[]) => errorAlerts(minutesOf(failed)).map((ms) => ms / minuteMs)
const many = (count: number, failed: number) => Array.from({ length: count }, () => failed)

test('the alert about errors is that of the rules for Prometheus', () => {
  const rules = readFileSync(join(import.meta.dir, '../../ops/alerts.yaml'), 'utf8')
  const [, rule = ''] = /alert: PenstockErrors\n([\s\S]*?)labels:/.exec(rules) ?? []
  const [window, share, lasts] = [/\[(\d+)m\]/, /> ([\d.]+)/, /for: (\d+)m/].map((form) => Number(form.exec(rule)?.[1]))
  expect({ window, share, lasts }).toEqual({ window: windowMinutes, share: errorShare, lasts: forMinutes })
})

test('it fires when the share has been too large for long enough, once until it was not', () => {
  expect(firedAt(many(60, 5))).toEqual([])
  // Above from the first minute with six of a hundred in the mean of five.
  expect(firedAt([...many(10, 0), ...many(20, 30)])).toEqual([14])
  expect(firedAt([...many(10, 0), ...many(3, 6), ...many(20, 0)])).toEqual([])
  expect(firedAt([...many(10, 30), ...many(20, 0), ...many(10, 30)])).toEqual([4, 34])
})

test('minutes without requests are no failure, and a range without any has no alert', () => {
  expect(errorAlerts([])).toEqual([])
  const apart = [0, 20, 40].map((at) => ({ atMs: at * minuteMs, requests: 10, failed: 10 }))
  // One minute with requests counts as long as it stands in the window.
  expect(errorAlerts(apart).map((ms) => ms / minuteMs)).toEqual([4, 24])
  expect(errorAlerts(minutesOf(many(30, 0), 0))).toEqual([])
})
