import { expect, test } from 'bun:test'
import { freePort } from '../support/gateways/free-port.ts'
import { fresh } from '../support/gateways/processes.ts'
import { clusterSecret, startPeerGateway } from '../support/peer-gateway.ts'
import { longStream, models, startProcessPool } from '../support/pools/process-pool.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const burst = 12
/** Each process that comes has a port of its own, counted from the first. */
const placesMax = 8

const SVC_PEER_URL = `http://127.0.0.1:${freePort(placesMax)}`
const pool = await fixture(startProcessPool({ SVC_PEER_URL, SVC_CLUSTER_SECRET: clusterSecret }))
const beside = await fixture(startPeerGateway({ beside: pool.gateway }))

async function ask(): Promise<number> {
  const messages = [{ role: 'user', content: 'hi' }]
  const response = await beside.chat(pool.payer.key, { model: models.dialled, messages, max_tokens: 5 }, fresh)
  await response.text()
  return response.status
}
const asks = () => Promise.all(Array.from({ length: burst }, ask))

test('§26, §33: another gateway reaches the nodes of a process that is replaced, until it has drained', async () => {
  await waitUntil('the node is known there', async () => (await ask()) === 200)
  // The old process keeps its tunnels for as long as it answers.
  const streams = Array.from({ length: 8 }, () => longStream(pool))
  await Promise.all(streams.map(({ begun }) => begun))
  let replacing = true
  const replaced = (pool.server.replace?.() ?? Promise.resolve()).finally(() => {
    replacing = false
  })
  const statuses: number[] = []
  while (replacing) statuses.push(...(await asks()))
  await replaced
  expect(statuses.length).toBeGreaterThan(2 * burst)
  expect(statuses.filter((status) => status !== 200)).toEqual([])
  await Promise.all(streams.map(({ ended }) => ended))
})
