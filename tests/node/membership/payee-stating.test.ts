import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { readOwnPayee, readWantedPayee, wantPayee } from '../../../src/node/membership/payee.ts'
import { createPayeeStating } from '../../../src/node/membership/payee-stating.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const payee = `0x${'ab'.repeat(20)}`
const path = mkdtempSync(join(tmpdir(), 'penstock-payee-'))
const folder = openPrivateFolder(path)
const answers: Response[] = []
let asked = 0
const gateway = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: () => {
    asked++
    return answers.shift() ?? Response.json({ status: 'stated' })
  },
})
let lines = ''
const log = createLog('info', (text) => {
  lines += text
})
const clock = new VirtualClock()
const begin = () =>
  createPayeeStating({
    folder,
    log,
    clock,
    identity: signingKey(new Uint8Array(32).fill(3)),
    gatewayUrl: `http://127.0.0.1:${gateway.port}`,
    nodeId: 'node_1',
  })
let stating = begin()
afterEach(async () => {
  await stating.stop()
  await gateway.stop(true)
  rmSync(path, { recursive: true, force: true })
})

test('§36: a payee that the gateway did not take at the enrolment is stated again, until it has, and not once more', async () => {
  const refused = () => Response.json({ code: 'service_unavailable' }, { status: 503 })
  answers.push(refused(), new Response('{}', { status: 404 }), refused())
  wantPayee(folder, payee)
  stating.start()
  for (const seen of [1, 2, 3, 4]) {
    await waitUntil(`the ${seen}. try`, async () => {
      // Not while a try is under way.
      if (asked < seen && clock.waits.length > 0) await clock.pass(5_000)
      return asked >= seen
    })
    if (seen < 4) expect([readWantedPayee(folder), readOwnPayee(folder)]).toEqual([payee, null])
    if (seen !== 2) continue
    // The agent is started anew.
    await stating.stop()
    stating = begin()
    stating.start()
  }
  await waitUntil('the statement', async () => readOwnPayee(folder) !== null)
  expect(readWantedPayee(folder)).toBeNull()
  await clock.pass(3_600_000)
  expect(asked).toBe(4)
  log.flush()
  // Once for each start.
  expect(lines.match(/payee_not_stated/g)).toHaveLength(2)
  expect(lines.match(/payee_stated/g)).toHaveLength(1)
  expect(lines).not.toContain(payee)
})
