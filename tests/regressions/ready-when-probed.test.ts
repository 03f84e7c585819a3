import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { readCredentials } from '../../src/host/data-folder.ts'
import { start } from '../../src/main.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { waitLimitMs } from '../support/run/limits.ts'
import { prepareFolder } from '../support/run/prepared-folder.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

/*
 * `/readyz` said 200 as soon as the port was open: a script that waited for it and asked at once got an empty list of
 * models, since the machines known or found had not been asked yet.
 */

const stops: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

/** What `/readyz` says until it is ready, and the models at that very moment. `heard`: what it says first was heard. */
async function firstReady(port: number, key: () => string, heard: () => void = () => {}) {
  const url = `http://127.0.0.1:${port}`
  const tookMs = stopwatch()
  const said: string[] = []
  const ask = async () => {
    const response = await fetch(`${url}/readyz`).catch(() => null)
    if (response === null) return false
    const { status } = (await response.json()) as { readonly status: string }
    said.push(`${response.status} ${status}`)
    heard()
    return response.status === 200
  }
  await waitFor('readyz', ask)
  const models = await fetch(`${url}/v1/api/models`, { headers: { authorization: `Bearer ${key()}` } })
  const { data } = (await models.json()) as { readonly data: readonly { readonly id: string }[] }
  return { said, models: data.map(({ id }) => id), ms: tookMs() }
}

/** Another gateway on the same database. */
async function startAgain(
  first: TestGateway,
  key: string,
  env: Readonly<Record<string, string>> = {},
  heard: () => void = () => {},
) {
  const port = freePort()
  const starting = startTestGateway({ beside: first, env: { SVC_PORT: String(port), ...env } })
  stops.push(async () => (await starting).stop())
  return firstReady(port, () => key, heard)
}

async function poolWithOneNode() {
  const gateway = await startTestGateway()
  stops.push(() => gateway.stop())
  const customer = await gateway.customer()
  const node = startFakeNode({ models: ['m'] })
  stops.push(() => node.stop())
  await gateway.node(node.url, { customerId: customer.customerId })
  return { gateway, node, key: customer.key }
}

test('the first 200 of /readyz comes when the known nodes were asked once', async () => {
  const { gateway, node, key } = await poolWithOneNode()
  // It answers when the gateway has said that it starts: no time is right on every machine.
  node.setFaults({ kind: 'slowHeaders', ms: waitLimitMs, scope: 'probe' })
  const { said, models } = await startAgain(gateway, key, {}, () => {
    node.clearFaults()
    node.release()
  })
  expect(said[0]).toBe('503 starting')
  expect(models).toEqual(['m'])
})

test('a node that never answers keeps it back for 5 s at most', async () => {
  const { gateway, node, key } = await poolWithOneNode()
  node.setFaults({ kind: 'hang', scope: 'probe' })
  const { said, models, ms } = await startAgain(gateway, key, { SVC_PROBE_TIMEOUT_MS: '9000' })
  expect(said[0]).toBe('503 starting')
  expect(ms).toBeGreaterThan(4_500)
  expect(models).toEqual([])
})

test('so does the demo of a first start', async () => {
  const dataDir = await prepareFolder(realpathSync(mkdtempSync(join(tmpdir(), 'penstock-ready-'))))
  stops.push(() => {
    rmSync(realpathSync(join(dataDir, 'postgres')), { recursive: true, force: true })
    rmSync(dataDir, { recursive: true, force: true })
  })
  const port = freePort()
  const env = { SVC_DATA_DIR: dataDir, SVC_PORT: String(port), SVC_DISCOVER: 'false', SVC_LOG_LEVEL: 'silent' }
  const starting = start(env, { quiet: true })
  stops.push(async () => (await starting).stop())
  const { models } = await firstReady(port, () => readCredentials(dataDir)?.gateway_key ?? '')
  expect(models.length).toBeGreaterThan(0)
})
