import { expect, test } from 'bun:test'
import { atMostEvery, Outage } from '../../src/host/outage.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

test('an outage is reported once, and its end once', () => {
  const said: string[] = []
  const outage = new Outage(
    (error) => said.push(`away: ${error}`),
    () => said.push('back'),
  )
  outage.worked()
  for (const error of ['first', 'second']) outage.failed(error)
  for (let runs = 0; runs < 2; runs++) outage.worked()
  outage.failed('third')
  expect(said).toEqual(['away: first', 'back', 'away: third'])
})

test('the end of an outage may go unreported', () => {
  const said: unknown[] = []
  const outage = new Outage((error) => said.push(error))
  for (const error of ['first', 'second']) {
    outage.failed(error)
    outage.worked()
  }
  expect(said).toEqual(['first', 'second'])
})

test('of many calls one gets through in each span of time', async () => {
  const clock = new VirtualClock()
  const said: string[] = []
  const report = atMostEvery(1_000, (what: string) => said.push(`${what} at ${clock.now()}`), clock)
  report('a')
  report('b')
  await clock.pass(999)
  report('c')
  await clock.pass(1)
  report('d')
  await clock.pass(5_000)
  report('e')
  expect(said).toEqual(['a at 0', 'd at 1000', 'e at 6000'])
})
