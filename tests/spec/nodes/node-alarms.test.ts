import { expect, test } from 'bun:test'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { tellAlarms } from '../../../src/node/membership/alarm-report.ts'
import { createAlarmWatch } from '../../../src/node/membership/alarm-watch.ts'
import { createAlarms } from '../../../src/node/membership/alarms.ts'
import { loadIdentity } from '../../../src/node/membership/identity.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { nodeAlarmsMessage } from '../../../src/protocol/signing/signatures.ts'
import type { Node } from '../../../src/protocol/wire/admin/admin.ts'
import { isoTime } from '../../../src/time.ts'
import { commandLine } from '../../cli/command-line.ts'
import { hasBrowser, launchBrowser, openConsole } from '../../support/console/console.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent } from '../../support/nodes/agents.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const log = createLog('silent', () => {})
const gateway = await fixture(startTestGateway())
const { customerId } = await gateway.customer()
const token = await enrollmentToken(gateway, customerId)
const agent = await fixture(startAgent({ gatewayUrl: gateway.url, token: token.enrollment_token, runtimes: [] }))
const folder = openPrivateFolder(agent.node.folder)
const own = loadIdentity(folder).key

const shown = async (token?: string) =>
  (await gateway.admin<Node>('GET', `/v1/admin/nodes/${agent.nodeId}`, undefined, token)).alarms
const asking = () => ({ identity: own, gatewayUrl: gateway.url, nodeId: agent.nodeId })

test('§36: what a node finds wrong reaches its gateway, each alarm once, and is shown to whoever sees the node', async () => {
  expect(await shown()).toEqual([])
  const watch = createAlarmWatch({ ...asking(), folder, log })
  await watch.look()
  expect(await shown()).toEqual([])
  const alarms = createAlarms(folder, log)
  alarms.raise('receipt_missing', 'req_dropped')
  alarms.raise('receipt_missing', 'req_dropped')
  alarms.raise('payee_changed', 'pay_stolen')
  await watch.look()
  const told = await shown(gateway.tokens.viewer)
  expect(told?.map(({ code, subject }) => `${code} ${subject}`)).toEqual([
    'receipt_missing req_dropped',
    'payee_changed pay_stolen',
  ])
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.operator })
  const { out } = await cli.run(['nodes', 'show', agent.nodeId])
  const list = await cli.run(['nodes', 'list'])
  cli.close()
  expect(out).toMatch(/ALARM +receipt_missing req_dropped at /)
  expect(list.out).toContain(', alarm')
})

test('§36: a gateway keeps the newest 20 of a node’s own alarms alone', async () => {
  const at = isoTime(Date.now())
  const many = Array.from({ length: 30 }, (_, n) => ({ code: 'receipt_missing', subject: `req_${n}`, at }) as const)
  await tellAlarms(asking(), many)
  expect((await shown())?.map(({ subject }) => subject)).toEqual(many.slice(-20).map(({ subject }) => subject))
  await expect(tellAlarms({ ...asking(), identity: signingKey(new Uint8Array(32).fill(9)) }, many)).rejects.toThrow()

  const post = async (signedAt: string, alarms: readonly object[], more: object = {}) => {
    const signature = own.sign(nodeAlarmsMessage(agent.nodeId, signedAt, alarms))
    const response = await fetch(`${gateway.url}/v1/nodes/${agent.nodeId}/alarms`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ alarms, signed_at: signedAt, signature_ed25519: signature, ...more }),
    })
    return [response.status, ((await response.json()) as { code?: string }).code]
  }
  const [one, two] = [many.slice(0, 1), many.slice(0, 2)]
  expect(await post(isoTime(Date.now() - 301_000), one)).toEqual([401, 'signature_expired'])
  expect(await post(isoTime(Date.now()), one, { alarms: two })).toEqual([401, 'signature_invalid'])
  expect(await post(isoTime(Date.now()), [{ ...one[0], subject: 'a <b>' }])).toEqual([400, 'invalid_request'])
  expect(await post(isoTime(Date.now()), [])).toEqual([400, 'invalid_request'])
  // An older report that comes later changes nothing.
  expect(await post(isoTime(Date.now() - 60_000), one)).toEqual([200, undefined])
  expect(await shown()).toHaveLength(20)
})

test('§36: a gateway of a version before, which has no such route, is told nothing', async () => {
  const old = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => Response.json({ code: 'route_not_found' }, { status: 404 }),
  })
  const at = isoTime(Date.now())
  await tellAlarms({ ...asking(), gatewayUrl: old.url.origin }, [{ code: 'payee_changed', subject: 'pay_1', at }])
  await old.stop(true)
})

test.skipIf(!hasBrowser)('§36: the console shows the alarms of a node in the pool', async () => {
  const at = isoTime(Date.now())
  await tellAlarms(asking(), [{ code: 'receipt_replaced', subject: 'req_1', at }])
  await using browser = await scoped(launchBrowser())
  const { page, signIn } = await openConsole(browser, gateway.url)
  await signIn(gateway.tokens.operator)
  await page.evaluate("location.hash = '#pool'")
  const row = page.locator(`[data-row="${agent.nodeId}"]`)
  await row.getByText('alarm', { exact: true }).waitFor()
  await row.getByRole('button').first().click()
  await row.getByText(/^receipt_replaced: req_1, /).waitFor()
})
