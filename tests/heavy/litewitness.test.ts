import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandLine } from '../cli/command-line.ts'
import { json, startTestGateway, stillLog, type TestGateway } from '../support/gateways/http-gateway.ts'
import { receiptOf } from '../support/money/forging.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { type Litewitness, litewitness, startLitewitness } from '../support/verdicts/litewitness.ts'

/** A stranger's witness beside our log: it knows C2SP `tlog-witness`, and nothing of us. */
const found = litewitness()
const program = 'binary' in found ? found.binary : null
if ('missing' in found) console.log(`skipped: ${found.missing}`)

describe.skipIf(program === null)('§36 with litewitness', () => {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-lw-'))
  let witnesses: readonly [Litewitness, Litewitness, Litewitness]
  let gateway: TestGateway
  /** Of the same keys, and so of the same name, with a log of its own: the other view. */
  let other: TestGateway
  beforeAll(async () => {
    const start = (name: string) => startLitewitness(program ?? '', join(folder, name), `witness.example/${name}`)
    witnesses = [await start('one'), await start('two'), await start('three')]
    const asked = (...of: readonly Litewitness[]) => ({
      ...stillLog,
      SVC_LOG_COSIGN_MS: '600000',
      SVC_LOG_WITNESSES: of.map(({ key, url }) => `${key} ${url}`).join(','),
    })
    gateway = await startTestGateway(asked(witnesses[0], witnesses[1]))
    other = await startTestGateway(asked(...witnesses))
    const { keys } = (await json(await gateway.ask('GET', '/v1/public/log/keys'))) as unknown as { keys: string[] }
    const [logKey = ''] = keys
    for (const witness of witnesses) witness.add(logKey)
    const lines = witnesses.map(({ key }, at) => `witness w${at} ${key}`)
    const policy = [`log ${logKey}`, ...lines, 'group enough 2 w0 w1 w2', 'quorum enough']
    writeFileSync(join(folder, 'policy'), `${policy.join('\n')}\n`)
  })
  afterAll(async () => {
    await gateway?.stop()
    await other?.stop()
    for (const witness of witnesses ?? []) await witness.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  async function grow(of: TestGateway, count: number): Promise<void> {
    const customerId = await fundedCustomer(of.database, 1n)
    const rows = Array.from({ length: count }, () => receiptOf(customerId))
    await insertReceipts(of.database, rows)
    await of.gateway.sequencer.catchUp()
  }
  async function verified(of: TestGateway) {
    const file = join(folder, 'checkpoint')
    writeFileSync(file, await (await of.ask('GET', '/v1/public/log/checkpoint')).text())
    // Each reader comes for the first time: it has seen neither view.
    const reader = commandLine()
    const { code, out, err } = await reader.run(['verify', 'checkpoint', file, '--policy', join(folder, 'policy')])
    reader.close()
    return { code, told: `${out}${err}` }
  }

  test('it cosigns our log, and again what has grown since', async () => {
    await grow(gateway, 3)
    expect(await gateway.gateway.cosigning.round()).toBe(2)
    expect(await verified(gateway)).toMatchObject({ code: 0 })
    await grow(gateway, 300)
    expect(await gateway.gateway.cosigning.round()).toBe(2)
    const { code, told } = await verified(gateway)
    expect(code).toBe(0)
    for (const name of ['one', 'two']) expect(told).toContain(`witness.example/${name}`)
  })

  test('a split view has one witness of three, who saw neither before, and is refused by a policy of two', async () => {
    await grow(other, 400)
    expect(await other.gateway.cosigning.round()).toBe(1)
    const { code, told } = await verified(other)
    expect(code).toBe(1)
    expect(told).toContain('the policy asks for 2 of (w0, w1, w2)')
    expect(told).toContain('witness.example/three')
    for (const name of ['one', 'two']) expect(told).not.toContain(`witness.example/${name}`)
    // What was shown first is as valid as before.
    await grow(gateway, 1)
    expect(await gateway.gateway.cosigning.round()).toBe(2)
    expect(await verified(gateway)).toMatchObject({ code: 0 })
  })
})
