import { expect, test } from 'bun:test'
import { crashUnderLoad } from '../support/gateways/audit-crash.ts'

const rounds = 20
const loadMs = 2_000

test('§16: kill -9 under load, twenty times: no change was answered without its event, and the chains hold', async () => {
  const report = await crashUnderLoad(rounds, loadMs)
  expect(report.answered).toBeGreaterThan(rounds * 20)
  process.stdout.write(
    `${report.rounds} kills: ${report.answered} changes answered, ${report.unanswered} done and cut off before their answer, ${report.events} events\n`,
  )
})
