import { expect, test } from 'bun:test'
import { hoursOf, isWithin } from '../../../src/machines/sleep/hours.ts'

const at = (text: string) => Date.parse(text)
const within = (text: string, moment: string, zone = 'UTC') => {
  const hours = hoursOf(text)
  return hours === null ? null : isWithin(hours, at(moment), zone)
}

test('§39: hours begin with their first minute and end before their last', () => {
  expect(within('07:00-23:00', '2026-11-26T07:00:00Z')).toBe(true)
  expect(within('07:00-23:00', '2026-11-26T22:59:59Z')).toBe(true)
  expect(within('07:00-23:00', '2026-11-26T23:00:00Z')).toBe(false)
  expect(within('07:00-23:00', '2026-11-26T06:59:59Z')).toBe(false)
})

test('§39: hours over midnight', () => {
  expect(within('22:00-06:30', '2026-11-26T23:00:00Z')).toBe(true)
  expect(within('22:00-06:30', '2026-11-26T00:00:00Z')).toBe(true)
  expect(within('22:00-06:30', '2026-11-26T06:30:00Z')).toBe(false)
})

test('§39: hours in a time zone of their own, in winter and in summer', () => {
  expect(within('07:00-23:00 Europe/Berlin', '2026-01-10T06:30:00Z')).toBe(true)
  expect(within('07:00-23:00 Europe/Berlin', '2026-01-10T05:30:00Z')).toBe(false)
  expect(within('07:00-23:00 Europe/Berlin', '2026-07-10T05:30:00Z')).toBe(true)
  expect(within('07:00-23:00', '2026-01-10T06:30:00Z', 'Europe/Berlin')).toBe(true)
})

test('§39: what is no part of a day is none', () => {
  for (const text of ['', '7-23', '07:00', '24:00-25:00', '07:60-08:00', '08:00-08:00', '07:00-23:00 Mars/Base'])
    expect(hoursOf(text)).toBeNull()
})
