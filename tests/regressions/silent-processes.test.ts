import { afterAll, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { fresh, startProcesses } from '../support/gateways/processes.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const requests = 16
/** Of one try: the kernel gives a part of the connections to the process that stands still. */
const tryMs = 3_000

const { gateway, server } = await startProcesses()
afterAll(() => gateway.stop())
const node = await fixture(startFakeNode({ models: ['m'] }))
const { key, customerId } = await gateway.customer()
await gateway.node(node.url, { customerId })

async function chat(): Promise<string | null> {
  const answer = await gateway.chat(key, { model: 'm', messages: [{ role: 'user', content: 'hi' }] }, fresh)
  await answer.text()
  return answer.status === 200 ? answer.headers.get('x-request-id') : null
}

/** By a process that runs. */
async function look(path: string) {
  for (;;) {
    const init = {
      ...fresh,
      headers: { 'x-svc-admin-token': gateway.tokens.admin },
      signal: AbortSignal.timeout(tryMs),
    }
    const answer = await fetch(gateway.url + path, init)
      .then(async (said) => ({ status: said.status, headers: said.headers, body: (await said.json()) as object }))
      .catch(() => null)
    if (answer !== null) return answer
  }
}

test('§33: a request that a process which stands still may know is asked for again, and is not called unknown', async () => {
  const ids: string[] = []
  await waitUntil('the requests', async () => {
    const id = await chat()
    if (id !== null) ids.push(id)
    return ids.length === requests
  })
  const paths = ids.map((id) => `/v1/admin/explain?request_id=${id}`)
  const [, still = 0] = server.pids
  process.kill(still, 'SIGSTOP')
  try {
    const answers = await Promise.all(paths.map(look))
    const statuses = answers.map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([200, 503]))
    const unsure = answers.find(({ status }) => status === 503)
    expect(unsure?.headers.get('retry-after')).toBe('1')
    expect(unsure?.body).toMatchObject({ code: 'service_unavailable' })
    const unknown = 'req_00000000000000000000000000'
    for (const path of [`/v1/admin/explain?request_id=${unknown}`, `/v1/admin/requests/${unknown}`])
      expect((await look(path)).status).toBe(503)
  } finally {
    process.kill(still, 'SIGCONT')
  }
  await waitUntil('all to be known', async () =>
    (await Promise.all(paths.map(look))).every(({ status }) => status === 200),
  )
})
