import { afterEach, beforeEach, expect, test } from 'bun:test'
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { openKeptReceipts } from '../../../src/node/receipts/kept-receipts.ts'
import { dayMs } from '../../../src/time.ts'

const noonMs = Date.UTC(2026, 10, 20, 12)
const log = createLog('silent', () => {})
const receiptAt = (at: number, ms: number) => ({
  requestId: `req_${at}`,
  hash: `0x${String(at).padStart(64, '0')}`,
  ms,
})

let path = ''
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), 'penstock-receipts-'))
})
afterEach(() => rmSync(path, { recursive: true, force: true }))
const open = (nowMs: number, days?: number) =>
  openKeptReceipts({ folder: openPrivateFolder(path), log, days, now: () => nowMs })
const files = () => readdirSync(join(path, 'receipts')).sort()

test('§36: what was signed is looked up after a restart, too, but for what is settled', () => {
  const kept = open(noonMs)
  for (const at of [1, 2, 3]) kept.add(receiptAt(at, noonMs + at))
  kept.settle(receiptAt(1, noonMs + 1))
  kept.settle(receiptAt(3, noonMs + 3))
  // A crash before anything is tidied: they are all looked up again.
  expect(
    open(noonMs + 10)
      .waiting()
      .map(({ requestId }) => requestId),
  ).toEqual(['req_1', 'req_2', 'req_3'])
  kept.tidy()
  expect(open(noonMs + 10).waiting()).toEqual([receiptAt(2, noonMs + 2), receiptAt(3, noonMs + 3)])
  kept.settle(receiptAt(2, noonMs + 2))
  kept.tidy()
  expect(kept.waiting()).toEqual([])
})

test('§36: all that is settled is settled for the next start', () => {
  let nowMs = noonMs
  const kept = openKeptReceipts({ folder: openPrivateFolder(path), log, now: () => nowMs })
  kept.add(receiptAt(1, noonMs))
  nowMs += 60_000
  kept.settle(receiptAt(1, noonMs))
  kept.tidy()
  expect(open(nowMs).waiting()).toEqual([])
})

test('§36: hashes are kept for 90 days, or for as long as is said, in files of their owner alone', () => {
  const kept = open(noonMs)
  for (const days of [200, 91, 90, 3, 1, 0]) kept.add(receiptAt(days, noonMs - days * dayMs))
  expect(files()).toHaveLength(6)
  kept.tidy()
  expect(files()).toEqual(['2026-08-22.txt', '2026-11-17.txt', '2026-11-19.txt', '2026-11-20.txt'])
  open(noonMs, 2).tidy()
  expect(files()).toEqual(['2026-11-19.txt', '2026-11-20.txt'])
  const file = join(path, 'receipts', '2026-11-20.txt')
  expect(readFileSync(file, 'utf8')).toBe(`${noonMs} 0x${'0'.repeat(64)} req_0\n`)
  expect([statSync(file).mode & 0o777, statSync(join(path, 'receipts')).mode & 0o777]).toEqual([0o600, 0o700])
})

test('§36: a line that a crash cut is passed over, and what could not be looked up for a day is not looked up any more', () => {
  const kept = open(noonMs)
  kept.add(receiptAt(1, noonMs - dayMs - 1))
  kept.add(receiptAt(2, noonMs - dayMs + 1))
  appendFileSync(join(path, 'receipts', '2026-11-19.txt'), `${noonMs - 5} 0x00`)
  expect(open(noonMs).waiting()).toEqual([receiptAt(2, noonMs - dayMs + 1)])
  kept.tidy()
  expect(kept.waiting()).toEqual([receiptAt(2, noonMs - dayMs + 1)])
})

test('§36: a folder that takes nothing keeps no answer from its client, and says so once', () => {
  const lines: string[] = []
  const told = createLog('info', (text) => lines.push(text))
  const kept = openKeptReceipts({ folder: openPrivateFolder(path), log: told, now: () => noonMs })
  writeFileSync(join(path, 'receipts'), '')
  for (const at of [1, 2]) kept.add(receiptAt(at, noonMs))
  told.flush()
  expect(lines.join('').match(/receipts_not_kept/g)).toHaveLength(1)
  expect(kept.waiting()).toHaveLength(2)
})
