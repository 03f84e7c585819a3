import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { parseMeasurementPolicy } from '../../../src/client/attestation/measurement-policy.ts'
import { nodeJudge } from '../../../src/client/attestation/node-judge.ts'
import { SealedError, sealedFetch } from '../../../src/client/sealed/sealed-fetch.ts'
import type { Attestation } from '../../../src/protocol/attestation/evidence.ts'
import { encodeBase64 } from '../../../src/protocol/signing/base64.ts'
import type { SealedNode, SealedNodeList } from '../../../src/protocol/wire/inference/sealed.ts'
import { hostTable, makeAmd, snpMeasurement } from '../../support/confidential/amd.ts'
import { entryOf, startTsmFolder } from '../../support/confidential/tsm-folder.ts'
import { startSealedPool } from '../../support/pools/sealed-pool.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const messages = [{ role: 'user' as const, content: 'hello there' }]
const text = 'fake-0 fake-1 fake-2 '
const measurements = {
  snp: [{ name: 'image 8', measurement: snpMeasurement.toHex() }],
  snp_tcb_least: { bootloader: 4, tee: 0, snp: 22, microcode: 115 },
}
const policy = parseMeasurementPolicy(JSON.stringify(measurements))
const nonce = 'ab'.repeat(32)

/** What runs on the machines; another test's image is not allowed. */
let measurement: Uint8Array
const dir = mkdtempSync(join(tmpdir(), 'penstock-attested-'))
const amd = await makeAmd(Date.now())
const tsm = await fixture(
  startTsmFolder('sev_guest', async (reportData) => ({
    report: amd.report({ reportData, measurement }),
    certificates: hostTable(amd.vcek),
  })),
)
const collateral = join(dir, 'collateral.json')
writeFileSync(collateral, JSON.stringify({ snp: { crl: encodeBase64(await amd.list(false)) } }))
const pool = await fixture(
  startSealedPool({ answer: { chunks: 3 }, agent: { attest: { folder: tsm.path, collateral } } }),
)
afterAll(() => {
  rmSync(dir, { recursive: true })
})
for (const { node } of [pool.tunnelled, pool.direct]) tsm.serve(entryOf(node.fingerprint))
beforeEach(() => {
  measurement = snpMeasurement
  tsm.asked.splice(0)
})

const bearer = () => ({ authorization: `Bearer ${pool.customer.key}` })
const list = async (query: string, gateway = pool.gateway) =>
  fetch(`${gateway.url}/v1/sealed/nodes?${query}`, { headers: bearer() })
const trusted = () => [pool.tunnelled.node.fingerprint, pool.direct.node.fingerprint]

/** The judge knows the maker of the test's machines in AMD's place. */
const judge = (told: string[] = []) =>
  nodeJudge({
    policy,
    roots: { amd: [amd.root] },
    onVerdict: ({ nodeId }, { checks }) => {
      const wrong = checks.filter(({ ok }) => ok === false).map(({ name }) => name)
      told.push(`${nodeId} ${wrong.join() || 'good'}`)
    },
  })

type Tamper = (nodes: readonly SealedNode[]) => readonly SealedNode[]

/** A gateway, or somebody before it, that changes what it says of nodes. */
const through = (tamper: Tamper) => async (url: string, init: RequestInit) => {
  const response = await fetch(url, init)
  if (!url.includes('/v1/sealed/nodes?')) return response
  const { object, data } = (await response.json()) as SealedNodeList
  return Response.json({ object, data: tamper(data) })
}

const client = (told: string[] = [], tamper: Tamper = (nodes) => nodes, now: () => number = Date.now) =>
  new OpenAI({
    baseURL: `${pool.gateway.url}/v1`,
    apiKey: pool.customer.key,
    maxRetries: 0,
    fetch: sealedFetch({
      gateway: pool.gateway.url,
      trust: trusted(),
      attest: judge(told),
      fetch: through(tamper),
      now,
    }),
  })

const faultOf = (failed: Promise<unknown>): Promise<string> =>
  failed.then(
    () => 'none',
    (error: unknown) => {
      const { cause } = error as { readonly cause?: unknown }
      return cause instanceof SealedError ? cause.fault : String(error)
    },
  )
const ask = (openai: OpenAI, model = 'm-1') => openai.chat.completions.create({ model, messages })

describe('§38: evidence of machines', () => {
  test('the list of nodes carries it for a nonce, over both ways and both gateways; without one nobody is asked', async () => {
    for (const gateway of [pool.gateway, pool.second]) {
      const { data } = (await (await list(`model=m-1&nonce=${nonce}`, gateway)).json()) as SealedNodeList
      expect(data.map(({ attestation }) => (attestation as Attestation).nonce)).toEqual([nonce, nonce])
    }
    expect(tsm.asked).toHaveLength(4)
    const { data } = (await (await list('model=m-1')).json()) as SealedNodeList
    expect(data.map((node) => 'attestation' in node)).toEqual([false, false])
    expect(tsm.asked).toHaveLength(4)
    for (const wrong of ['AB', nonce.toUpperCase(), `${nonce}00`]) {
      const refused = await list(`model=m-1&nonce=${wrong}`)
      expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([400, 'invalid_parameter'])
    }
  })

  test('a client seals for nodes that it has judged, asks once for many requests, and streams', async () => {
    const told: string[] = []
    const openai = client(told)
    expect((await ask(openai)).choices[0]?.message.content).toBe(text)
    let seen = ''
    for await (const chunk of await openai.chat.completions.create({ model: 'm-1', messages, stream: true })) {
      seen += chunk.choices[0]?.delta.content ?? ''
    }
    expect(seen).toBe(text)
    expect(told.toSorted()).toEqual([`${pool.tunnelled.nodeId} good`, `${pool.direct.nodeId} good`].toSorted())
    expect(tsm.asked).toHaveLength(2)
  })

  test('a verdict holds for an hour, a bad one for ten seconds', async () => {
    let aheadMs = 0
    // It stands still, however busy the computer is.
    const beganMs = Date.now()
    const openai = client([], undefined, () => beganMs + aheadMs)
    await ask(openai)
    aheadMs = 3_590_000
    await ask(openai)
    expect(tsm.asked).toHaveLength(2)
    aheadMs = 3_601_000
    measurement = new Uint8Array(48).fill(9)
    expect(await faultOf(ask(openai))).toBe('not_attested')
    expect(await faultOf(ask(openai))).toBe('not_attested')
    expect(tsm.asked).toHaveLength(4)
    aheadMs += 10_001
    measurement = snpMeasurement
    await ask(openai)
    expect(tsm.asked).toHaveLength(6)
  })

  test('another image than the policy allows: nothing is sent', async () => {
    measurement = new Uint8Array(48).fill(9)
    const told: string[] = []
    const before = pool.servers.map(({ requests }) => requests.length)
    expect(await faultOf(ask(client(told)))).toBe('not_attested')
    expect(told.every((line) => line.endsWith(' measurement'))).toBe(true)
    expect(pool.servers.map(({ requests }) => requests.length)).toEqual(before)
  })

  test('a gateway that shows older evidence, another node’s, or none, is noticed', async () => {
    const { data } = (await (await list(`model=m-1&nonce=${nonce}`)).json()) as SealedNodeList
    const cases: readonly (readonly [string, Tamper])[] = [
      ['nonce', (nodes) => nodes.map((node, at) => ({ ...node, attestation: data[at]?.attestation }))],
      [
        'identity,sealing key',
        (nodes) => nodes.map((node, at) => ({ ...node, attestation: nodes[1 - at]?.attestation })),
      ],
      ['form', (nodes) => nodes.map(({ attestation: _, ...node }) => node)],
    ]
    for (const [wrong, tamper] of cases) {
      const told: string[] = []
      // The list of a gateway may have another order than the one before.
      const ordered: Tamper = (nodes) => tamper(nodes.toSorted((a, b) => a.node_id.localeCompare(b.node_id)))
      data.sort((a, b) => a.node_id.localeCompare(b.node_id))
      expect(await faultOf(ask(client(told, ordered)))).toBe('not_attested')
      expect(told.map((line) => line.split(' ').slice(1).join(' '))).toEqual([wrong, wrong])
    }
  })

  test('one of two nodes that shows nothing is left out, and the other answers', async () => {
    const told: string[] = []
    const tamper: Tamper = (nodes) =>
      nodes.map(({ attestation, ...node }) =>
        node.node_id === pool.direct.nodeId ? node : { ...node, ...(attestation === undefined ? {} : { attestation }) },
      )
    const openai = client(told, tamper)
    const before = pool.servers[1].requests.length
    for (let at = 0; at < 3; at++) await ask(openai)
    expect(pool.servers[1].requests.length).toBe(before)
    expect(await faultOf(ask(openai, 'm-d'))).toBe('not_attested')
  })

  test('a node that shows nothing holds up no request that another can answer, and is asked again', async () => {
    const told: string[] = []
    let aheadMs = 0
    let shows = false
    const beganMs = Date.now()
    const held = Promise.withResolvers<void>()
    const heldList = Promise.withResolvers<void>()
    const tampered = through((nodes) =>
      nodes.map(({ attestation, ...node }) =>
        attestation === undefined || (node.node_id === pool.direct.nodeId && !shows) ? node : { ...node, attestation },
      ),
    )
    const openai = new OpenAI({
      ...{ baseURL: `${pool.gateway.url}/v1`, apiKey: pool.customer.key, maxRetries: 0 },
      fetch: sealedFetch({
        ...{ gateway: pool.gateway.url, trust: trusted(), attest: judge(told), now: () => beganMs + aheadMs },
        fetch: async (url, init) => {
          if (aheadMs > 0 && url.includes('nonce=')) {
            heldList.resolve()
            await held.promise
          }
          return tampered(url, init)
        },
      }),
    })
    await ask(openai)
    aheadMs = 61_000
    await ask(openai)
    await heldList.promise
    expect((await ask(openai)).choices[0]?.message.content).toBe(text)
    shows = true
    held.resolve()
    await waitUntil('both are judged', () => told.includes(`${pool.direct.nodeId} good`))
    // The verdict that holds was not looked for again.
    expect(told.filter((line) => line.startsWith(pool.tunnelled.nodeId))).toHaveLength(1)
    expect((await ask(openai, 'm-d')).choices[0]?.message.content).toBe(text)
  })

  test('an agent whose owner has not asked for it shows nothing, and only the gateway may ask', async () => {
    const local = await fetch(`${pool.direct.node.url}/svc/v1/attestation/${nonce}`)
    expect([local.status, ((await local.json()) as { code: string }).code]).toEqual([401, 'missing_credentials'])
  })
})

/** Runs the command. The maker of the test's machines is none that it knows: the published roots alone count there. */
async function penstock(args: readonly string[]): Promise<readonly [string, string, number]> {
  const child = Bun.spawn([process.execPath, 'src/cli/main.ts', ...args], {
    env: {
      ...{ PATH: process.env.PATH ?? '', HOME: dir },
      ...{ SVC_BASE_URL: pool.gateway.url, SVC_GATEWAY_KEY: pool.customer.key },
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return [out, err, await child.exited]
}

interface Told {
  readonly verdicts: readonly {
    readonly subject: string
    readonly checks: readonly { readonly name: string; readonly ok: unknown }[]
  }[]
}

describe('§38: the commands', () => {
  test('verify attestation tells each check of each node, also of those that show nothing; seal --measurements refuses what it cannot judge', async () => {
    const file = join(dir, 'list.json')
    const rules = join(dir, 'measurements.json')
    writeFileSync(file, await (await list(`model=m-t&nonce=${nonce}`)).text())
    writeFileSync(rules, JSON.stringify(measurements))
    const about = ['--pin', pool.tunnelled.node.fingerprint, '--nonce', nonce]
    const [out, said, code] = await penstock([
      'verify',
      'attestation',
      file,
      '--measurements',
      rules,
      ...about,
      '--json',
    ])
    expect([code, said]).toEqual([1, ''])
    const { verdicts } = JSON.parse(out) as Told
    const wrong = verdicts.flatMap(({ checks }) => checks.filter(({ ok }) => ok === false).map(({ name }) => name))
    // All that hangs on AMD's own root, and nothing else.
    expect(wrong).toEqual(['chain', 'revocation'])
    const both = (await (await list(`model=m-1&nonce=${nonce}`)).json()) as SealedNodeList
    const [shown, silent] = both.data
    const mixed = [
      { ...shown, keys: silent?.keys },
      { ...silent, attestation: undefined },
    ]
    writeFileSync(file, JSON.stringify({ object: 'list', data: mixed }))
    const all = await penstock(['verify', 'attestation', file, '--measurements', rules, '--nonce', nonce, '--json'])
    const { verdicts: told } = JSON.parse(all[0]) as Told
    const wrongOf = (at: number) => told[at]?.checks.filter(({ ok }) => ok === false).map(({ name }) => name)
    expect([all[2], wrongOf(0), wrongOf(1)]).toEqual([1, ['node', 'chain', 'revocation'], ['evidence']])
    expect(told.map(({ subject }) => subject)).toEqual([`${shown?.node_id} sev_guest`, silent?.node_id ?? ''])
    const [, unknown, unverifiable] = await penstock([
      'verify',
      'attestation',
      file,
      '--measurements',
      rules,
      '--pin',
      `SHA256:${'A'.repeat(43)}`,
    ])
    expect([unknown, unverifiable]).toEqual([expect.stringContaining('No node of this list has the fingerprint'), 4])
    expect((await penstock(['verify', 'attestation', file]))[1]).toContain('--measurements FILE')
    expect((await penstock(['verify', 'attestation', rules, '--measurements', rules]))[2]).toBe(4)
    writeFileSync(rules, '{"snp":[]}')
    const [, fault, refused] = await penstock(['seal', '--listen', '127.0.0.1:0', '--measurements', rules])
    expect([refused, fault]).toEqual([2, expect.stringContaining('it needs at least one image')])
  })

  test('seal --measurements: programs hear that no machine is allowed, and the person why', async () => {
    const rules = join(dir, 'strict.json')
    writeFileSync(rules, JSON.stringify(measurements))
    const child = Bun.spawn(
      [process.execPath, 'src/cli/main.ts', 'seal', '--listen', '127.0.0.1:0', '--measurements', rules],
      {
        env: {
          ...{ PATH: process.env.PATH ?? '', HOME: dir },
          ...{ SVC_BASE_URL: pool.gateway.url, SVC_GATEWAY_KEY: pool.customer.key },
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    const reader = child.stdout.getReader()
    let out = ''
    while (!out.includes('Gateway')) out += new TextDecoder().decode((await reader.read()).value)
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(out)?.[0] ?? ''
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unused', maxRetries: 0 })
    const refused = await ask(openai).catch((error: unknown) => error)
    expect(refused).toMatchObject({ status: 502, code: 'not_attested' })
    child.kill('SIGINT')
    await child.exited
    const told = await new Response(child.stderr).text()
    expect(told).toContain('does not run on a computer that your policy allows, so nothing is sent to it.\n  chain: ')
  })
})
