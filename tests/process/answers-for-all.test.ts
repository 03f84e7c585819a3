import { afterAll, describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import type { MixtureList } from '../../src/protocol/wire/admin/admin-mixtures.ts'
import type { Explanation } from '../../src/protocol/wire/admin/explanation.ts'
import type { MachineCounts, TransitionList } from '../../src/protocol/wire/admin/inspect.ts'
import type { MemoryPlanList } from '../../src/protocol/wire/admin/memory-plan.ts'
import type { AdminRequestList, RequestStory } from '../../src/protocol/wire/admin/requests.ts'
import type { AlertList } from '../../src/protocol/wire/alerts/alert-list.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { seriesOf } from '../support/gateways/metric.ts'
import { fresh, startProcesses } from '../support/gateways/processes.ts'
import { startJobNode } from '../support/nodes/job-node.ts'
import { createBody, jobsPath, storeKeys } from '../support/pools/job-pool.ts'
import { fixture, scoped } from '../support/run/fixture.ts'

const asks = 24

const messages = [{ role: 'user', content: 'hi' }]

afterAll(() => several.gateway.stop())
const several = await startProcesses({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_REQUEST_LOG_DAYS: '0' } })
const node = await fixture(startFakeNode({ models: ['m', 'n'] }))
const customer = await several.gateway.customer()
const nodeId = await several.gateway.node(node.url, { customerId: customer.customerId })
await waitFor('the node everywhere', async () => {
  const statuses = await Promise.all(Array.from({ length: asks }, () => chat().then(({ status }) => status)))
  return statuses.every((status) => status === 200)
})

async function chat(more: object = {}): Promise<Response> {
  const response = await several.gateway.chat(customer.key, { model: 'm', messages, ...more }, fresh)
  await response.clone().text()
  return response
}

/** By any of the processes, on a connection of its own. */
async function look(path: string): Promise<Response> {
  const { gateway } = several
  return fetch(gateway.url + path, { ...fresh, headers: { 'x-svc-admin-token': gateway.tokens.admin } })
}
const lookMany = <T>(path: string): Promise<T[]> =>
  Promise.all(Array.from({ length: asks }, async () => (await look(path)).json() as Promise<T>))

/** A process that is busy for longer than the others wait for it is asked again. */
const explained = (id: string) =>
  waitFor('the explanation', async () => {
    const answer = await look(`/v1/admin/explain?request_id=${id}`)
    return answer.status === 503 ? null : ((await answer.json()) as Explanation)
  })

describe('§33: whichever process is asked answers for all', () => {
  test('§37: the plan counts the demand that each process has seen', async () => {
    const calls = (plans: readonly MemoryPlanList[]) =>
      plans.map(({ models }) => models.find(({ model }) => model === 'm')?.calls ?? 0)
    const agreed = (what: string, holds: (calls: number) => boolean) =>
      waitFor(what, async () => {
        const seen = calls(await lookMany<MemoryPlanList>('/v1/admin/plan'))
        const [first = 0] = seen
        return seen.every((each) => each === first) && holds(first) ? first : null
      })
    const before = await agreed('all to agree', (seen) => seen > 0)
    for (let at = 0; at < asks; at++) expect((await chat()).status).toBe(200)
    await agreed('all to have counted', (seen) => seen === before + asks)
  })

  test('/metrics has the series of each process, and their sum is what was asked', async () => {
    const name = 'svc_http_requests_total'
    const chats = (text: string) =>
      [...seriesOf(text, name)].filter(([labels]) => labels.includes('chat/completions') && labels.includes('"200"'))
    const sum = (text: string) => chats(text).reduce((total, [, value]) => total + value, 0)
    const ofBoth = (text: string) => seriesOf(text, 'svc_build_info').size === 2
    const before = await waitFor('both to answer', async () => {
      const text = await (await look('/metrics')).text()
      return ofBoth(text) ? { sum: sum(text) } : null
    })
    for (let at = 0; at < asks; at++) expect((await chat()).status).toBe(200)
    // A process that is busy for longer than the others wait for it is left out of an answer.
    const texts = await waitFor('all to answer for all', async () => {
      const seen = await Promise.all(Array.from({ length: asks }, async () => (await look('/metrics')).text()))
      return seen.every((each) => sum(each) === before.sum + asks) ? seen : null
    })
    const [text = ''] = texts
    expect(
      chats(text)
        .map(([labels]) => /process="(\d)"/.exec(labels)?.[1])
        .sort(),
    ).toEqual(['0', '1'])
    // One description per metric, with its series right behind it.
    const types = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, metric]) => metric)
    expect(new Set(types).size).toBe(types.length)
    expect(ofBoth(text)).toBeTrue()
    expect([...seriesOf(text, 'svc_processes_silent').values()]).toEqual([0])
  })

  test('explain knows a request of any process', async () => {
    const ids = await Promise.all(Array.from({ length: 8 }, async () => (await chat()).headers.get('x-request-id')))
    for (const id of ids) {
      const found = await Promise.all(Array.from({ length: asks }, () => explained(id as string)))
      expect(new Set(found.map(({ request_id }) => request_id))).toEqual(new Set([id as string]))
    }
    expect((await look('/v1/admin/explain?request_id=req_00000000000000000000000000')).status).toBe(404)
  })

  test('§32: the story of a request has its explanation, whichever process decided', async () => {
    const id = (await chat()).headers.get('x-request-id')
    const found = await lookMany<RequestStory>(`/v1/admin/requests/${id}`)
    expect(new Set(found.map(({ explain }) => explain?.request_id))).toEqual(new Set([id as string]))
  })

  test('§32: where the database keeps no requests, lists and stories are those of all', async () => {
    const ids = await Promise.all(
      Array.from({ length: 8 }, async () => (await chat()).headers.get('x-request-id') ?? ''),
    )
    const { customerId, customerToken } = customer
    const headers = { 'x-svc-customer-id': customerId, 'x-svc-customer-token': customerToken }
    const idsOf = ({ requests }: Pick<AdminRequestList, 'requests'>) => requests.map(({ request_id }) => request_id)
    for (const path of ['/v1/admin/requests?limit=8', `/v1/admin/requests?limit=8&customer_id=${customerId}`]) {
      const wanted = ids.toSorted().toReversed()
      await waitFor('the list of all', async () =>
        (await lookMany<AdminRequestList>(path)).every((list) => Bun.deepEquals(idsOf(list), wanted)),
      )
    }
    const url = `${several.gateway.url}/v1/billing/requests?limit=3`
    const own = async (url: string) => (await (await fetch(url, { ...fresh, headers })).json()) as AdminRequestList
    for (let at = 0; at < 8; at++) {
      const wanted = ids.toSorted().toReversed().slice(0, 6)
      await waitFor('two pages of all', async () => {
        const first = await own(url)
        const second = await own(`${url}&cursor=${first.next_cursor}`)
        return Bun.deepEquals([...idsOf(first), ...idsOf(second)], wanted)
      })
    }
    expect((await look('/v1/admin/requests/req_00000000000000000000000000')).status).toBe(404)
  })

  test('mixtures and their transitions are those of all', async () => {
    const mixture = { strategy: 'vote', min_experts: 1, experts: [{ model: 'm' }, { model: 'n' }] }
    const ids = new Set<string>()
    for (let at = 0; at < 8; at++) {
      const response = await chat({ model: 'council', svc: { mixture } })
      expect(response.status).toBe(200)
      ids.add(response.headers.get('x-request-id') ?? '')
    }
    await waitFor('the mixtures of all', async () =>
      (await lookMany<MixtureList>('/v1/admin/mixtures')).every(({ mixtures }) =>
        Bun.deepEquals(new Set(mixtures.map(({ request_id }) => request_id)), ids),
      ),
    )
    const [first = ''] = ids
    const told = await lookMany<TransitionList>(`/v1/admin/machines/mixture/transitions?id=${first}`)
    expect(told.every(({ count }) => count > 3)).toBe(true)
    expect(new Set(told.map(({ transitions }) => JSON.stringify(transitions))).size).toBe(1)
  })

  test('a node shows what works on it for all', async () => {
    const inFlight = async () =>
      new Set((await lookMany<Node>(`/v1/admin/nodes/${nodeId}`)).map((one) => one.in_flight))
    const isAll = (seen: ReadonlySet<number>, count: number) => seen.size === 1 && seen.has(count)
    // What a mixture no longer needs ends a moment after its answer.
    await waitFor('nothing in flight', async () => isAll(await inFlight(), 0))
    node.setAnswer({ chunks: 2, intervalMs: 20_000 })
    // Held until the end: a response that nobody holds is let go by the collector, and its client has left then.
    let streams: readonly Response[] = []
    const ask = () => several.gateway.chat(customer.key, { model: 'm', messages, stream: true }, fresh)
    try {
      streams = await Promise.all(Array.from({ length: 8 }, ask))
      expect(streams.map(({ status }) => status)).toEqual(streams.map(() => 200))
      // On a machine with other work an answer may lack a sibling that took too long.
      await waitFor('eight in flight', async () => isAll(await inFlight(), 8))
      await waitFor('the same in the list', async () => {
        const lists = await lookMany<{ nodes: Node[] }>('/v1/admin/nodes')
        return isAll(new Set(lists.map(({ nodes }) => nodes[0]?.in_flight ?? 0)), 8)
      })
    } finally {
      for (const { body } of streams) await body?.cancel()
      node.setAnswer({ chunks: 2, intervalMs: 1 })
    }
    await waitFor('nothing in flight', async () => isAll(await inFlight(), 0))
  })

  test('a node shows how soon it answers all', async () => {
    for (let at = 0; at < 8; at++) expect((await chat({ stream: true })).status).toBe(200)
    const measured = async () => {
      const nodes = await lookMany<Node>(`/v1/admin/nodes/${nodeId}`)
      return nodes.map(({ runtimes }) =>
        runtimes.flatMap(({ models }) => models.map(({ first_token: first }) => JSON.stringify(first))).join(),
      )
    }
    // On a machine with other work an answer may lack a sibling that took too long.
    await waitFor('one answer', async () => {
      const [first = '', ...others] = new Set(await measured())
      return first.includes('"of":8') && others.length === 0
    })
  })

  test('§5: a node whose claims lie at the bound is one to review for all', async () => {
    const { gateway } = several
    const open = { min_privacy_class: 'public' as const }
    const payer = await gateway.customer({ policy: open, keyPolicy: open })
    await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '1000000000' })
    await using greedy = await scoped(startFakeNode({ models: ['paid'] }))
    greedy.setAnswer({ text: 'hi', usage: { prompt_tokens: 5, completion_tokens: 500, total_tokens: 505 } })
    const offered = { customerId: customer.customerId, visibility: 'public', privacyClass: 'public' } as const
    const id = await gateway.node(greedy.url, offered)
    await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1' })
    const pay = async () => {
      const response = await gateway.chat(payer.key, { model: 'paid', messages }, fresh)
      return (await response.text()).includes('receipt_hash')
    }
    // Each process reads node, price and customer when its own change feed reports them.
    await waitFor('paid answers everywhere', async () =>
      (await Promise.all(Array.from({ length: asks }, pay))).every((answered) => answered),
    )
    await waitFor('one answer', async () => {
      const seen = await lookMany<Node>(`/v1/admin/nodes/${id}`)
      const [first, ...others] = new Set(seen.map(({ usage_claims: claims }) => JSON.stringify(claims)))
      return first?.includes('"review":true') === true && others.length === 0
    })
  })

  test('a console hears of mixtures, loads and traffic of all', async () => {
    const ended = new AbortController()
    const { gateway } = several
    const response = await fetch(`${gateway.url}/v1/admin/inspect`, {
      ...fresh,
      headers: { 'x-svc-admin-token': gateway.tokens.viewer },
      signal: ended.signal,
    })
    let text = ''
    const reading = (async () => {
      const decoder = new TextDecoder()
      for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true })
    })().catch(() => {})
    await waitFor('the snapshot', () => text.includes('event: snapshot'))
    const mixture = { strategy: 'vote', min_experts: 1, experts: [{ model: 'm' }, { model: 'n' }] }
    const ids: string[] = []
    for (let at = 0; at < 8; at++) ids.push((await chat({ svc: { mixture } })).headers.get('x-request-id') ?? '')
    const succeeded = (id: string) =>
      text.split('\n').some((line) => line.includes(id) && line.includes('"to":"succeeded"'))
    await waitFor('all mixtures', () => ids.every(succeeded))
    const requests = () =>
      [...text.matchAll(/event: traffic\ndata: (.*)/g)].reduce(
        (sum, [, json = '{}']) => sum + JSON.parse(json).requests,
        0,
      )
    await waitFor('their traffic', () => requests() >= ids.length)
    ended.abort()
    await reading
  })

  test('§23: a token has eight consoles over all processes', async () => {
    const { gateway } = several
    const ended = new AbortController()
    const headers = { 'x-svc-admin-token': gateway.tokens.admin }
    const open = () => fetch(`${gateway.url}/v1/admin/inspect`, { ...fresh, headers, signal: ended.signal })
    const answers: Response[] = []
    for (let at = 0; at < asks; at++) answers.push(await open())
    ended.abort()
    expect(answers.map(({ status }) => status)).toEqual([...Array(8).fill(200), ...Array(asks - 8).fill(429)])
  })

  test('a console shows what works at a job, whichever process that is', async () => {
    const { gateway } = several
    const vault = await startJobNode('sealed')
    vault.nodeId = await gateway.node(vault.url, { customerId: customer.customerId, nodeClass: vault.nodeClass })
    await storeKeys(gateway, vault, vault.keys)
    vault.turn({ kind: 'hold' })
    const ended = new AbortController()
    /** Instances of private jobs by state, as this console was told last. */
    const jobsOf = (text: string) => {
      const told = text
        .split('\n')
        .filter((line) => line.startsWith('data: ') && line.includes('"machine":"private-job"'))
      const all = told.map(
        (line) => JSON.parse(line.slice('data: '.length)) as { readonly machines?: readonly MachineCounts[] },
      )
      const counts = all.flatMap(({ machines }) => machines ?? []).findLast(({ machine }) => machine === 'private-job')
      return counts?.states.filter(({ live }) => live > 0).map(({ state, live }) => `${state} ${live}`) ?? []
    }
    const consoles = Array.from({ length: 8 }, () => ({ text: '' }))
    const reading = consoles.map(async (one, at) => {
      const headers = { 'x-svc-admin-token': at % 2 === 0 ? gateway.tokens.viewer : gateway.tokens.operator }
      const response = await fetch(`${gateway.url}/v1/admin/inspect`, { ...fresh, headers, signal: ended.signal })
      const decoder = new TextDecoder()
      for await (const bytes of response.body ?? []) one.text += decoder.decode(bytes, { stream: true })
    })
    try {
      const response = await fetch(gateway.url + jobsPath, {
        ...fresh,
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-svc-customer-id': customer.customerId,
          'x-svc-customer-token': customer.customerToken,
        },
        body: JSON.stringify(createBody(vault)),
      })
      expect(response.status).toBe(202)
      await waitFor('every console to show it at work', () =>
        consoles.every(({ text }) => jobsOf(text).join() === 'attending 1'),
      )
    } finally {
      ended.abort()
      await Promise.allSettled(reading)
      await vault.stop()
    }
  })

  test('the door between processes asks for a proof', async () => {
    const refused = await look('/v1/peer/own/metrics')
    expect(refused.status).toBe(404)
  })
})

test('§18, §33: every process evaluates the alerts over what all of them have counted', async () => {
  const inAll = (what: string, isThere: boolean) =>
    waitFor(what, async () => {
      const seen = await lookMany<AlertList>('/v1/admin/alerts')
      return seen.every(
        ({ alerts, evaluated_at: at, silent_processes: silent }) =>
          at !== null && silent === 0 && alerts.some(({ alert }) => alert === 'PenstockNoReadyNode') === isThere,
      )
    })
  await inAll('all to see that the node takes work', false)
  await several.gateway.admin('POST', `/v1/admin/nodes/${nodeId}/drain`, { reason: 'test' })
  await inAll('all to see that no node takes work', true)
  await several.gateway.admin('POST', `/v1/admin/nodes/${nodeId}/resume`, { reason: 'test' })
})
