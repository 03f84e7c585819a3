import { expect, test } from 'bun:test'
import { type NodeName, startPromptPaths } from '../../support/leaks/prompt-paths.ts'
import { fixture } from '../../support/run/fixture.ts'

const paths = await fixture(startPromptPaths())

const say = (min: string) => ({ min_privacy_class: min })
const change = (node: NodeName, changes: object) =>
  paths.gateway.admin('PATCH', `/v1/admin/nodes/${paths.pool.nodeId(node)}`, changes)
const keyOf = async (customer: 'A' | 'B' | 'C', policy?: object) =>
  (await paths.pool.key(customer, policy === undefined ? {} : { model_policy: policy })).key

test('§8: once a machine has been made private no prompt of others reaches it; its owner keeps it', async () => {
  await paths.pool.account('C', say('public'))
  const stranger = await keyOf('C', say('public'))
  const owner = await keyOf('B')
  // The very next request: the answer to the change is the promise.
  for (let i = 0; i < 5; i++) {
    expect(await paths.ask(stranger, 'b-open')).toEqual([null, ['bOpen']])
    await change('bOpen', { visibility: 'private' })
    expect(await paths.ask(stranger, 'b-open')).toEqual(['model_not_found', []])
    expect(await paths.ask(owner, 'b-open')).toEqual([null, ['bOpen']])
    await change('bOpen', { visibility: 'public' })
  }
})

test('§8: a class that is lowered, and raised again', async () => {
  await paths.pool.account('C', say('trusted'))
  const stranger = await keyOf('C', say('trusted'))
  expect(await paths.ask(stranger, 'b-trusted')).toEqual([null, ['bTrusted']])
  await change('bTrusted', { privacy_class: 'public' })
  expect(await paths.ask(stranger, 'b-trusted')).toEqual(['privacy_class_not_allowed', []])
  await change('bTrusted', { privacy_class: 'trusted' })
  expect(await paths.ask(stranger, 'b-trusted')).toEqual([null, ['bTrusted']])
})

test('§8: a class that changes its tier', async () => {
  const key = await keyOf('A', { route_tiers: ['edge'] })
  expect(await paths.ask(key, 'a-open')).toEqual([null, ['aOpen']])
  await change('aOpen', { node_class: 'gpu' })
  expect(await paths.ask(key, 'a-open')).toEqual(['model_not_allowed', []])
  await change('aOpen', { node_class: 'edge' })
})

test('§8: an account that no longer lets prompts leave', async () => {
  await paths.pool.account('C', say('public'))
  const key = await keyOf('C', say('public'))
  for (let i = 0; i < 5; i++) {
    expect(await paths.ask(key, 'b-open')).toEqual([null, ['bOpen']])
    await paths.pool.account('C', null)
    expect(await paths.ask(key, 'b-open')).toEqual(['privacy_class_not_allowed', []])
    await paths.pool.account('C', say('public'))
  }
})

test('§23: a drained and a revoked machine get nothing more', async () => {
  const key = await keyOf('B')
  const path = `/v1/admin/nodes/${paths.pool.nodeId('bClaims')}`
  expect(await paths.ask(key, 'b-claims')).toEqual([null, ['bClaims']])
  await paths.gateway.admin('POST', `${path}/drain`)
  expect(await paths.ask(key, 'b-claims')).toEqual(['no_route_available', []])
  await paths.gateway.admin('POST', `${path}/revoke`)
  expect(await paths.ask(key, 'b-claims')).toEqual(['model_not_found', []])
})
