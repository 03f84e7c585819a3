import { join } from 'node:path'
import type { Rig } from './measure.ts'
import { descendants, RigError, temporaryFolder, until } from './rig.ts'
import { type Admin, adminOf, model, ordinary, startGateway, type Target } from './targets.ts'

export const ways = ['free', 'paid'] as const
export type Way = (typeof ways)[number]

/** More than any bench spends; a price per token that is no round number. */
const creditWei = (10n ** 30n).toString()
const prices = { prompt_token_price_wei: '17', completion_token_price_wei: '1003' }

/** Its keys let prompts leave for machines of others. */
async function customer(admin: Admin, name: string): Promise<{ readonly id: string; readonly key: string }> {
  const leaves = { min_privacy_class: 'public' }
  const { customer_id: id } = await admin<{ readonly customer_id: string }>('POST', '/customers', {
    display_name: name,
    gateway_policy: leaves,
  })
  const body = { name, model_policy: leaves }
  const made = await admin<{ readonly gateway_key: string }>('POST', `/customers/${id}/keys`, body)
  return { id, key: made.gateway_key }
}

export interface PaidGateway {
  readonly admin: Admin
  target(way: Way): Target
}

export interface PaidGatewayOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Modules that are loaded before the gateway. */
  readonly preload?: readonly string[]
}

/** One gateway, one public node: its owner's requests are free, the other customer's are paid, all of them from one account. */
export async function startPaidGateway(
  rig: Rig,
  node: string,
  { env = {}, preload = [] }: PaidGatewayOptions = {},
): Promise<PaidGateway> {
  const folder = temporaryFolder()
  const data = join(folder, 'data')
  const { program, url } = await startGateway(
    data,
    join(folder, 'gateway.log'),
    rig.pin?.proxyCpu ?? null,
    env,
    preload,
  )
  const admin = adminOf(url, join(data, 'credentials.json'))
  const [owner, payer] = [await customer(admin, 'owner'), await customer(admin, 'payer')]
  const offered = { visibility: 'public', privacy_class: 'public', node_class: 'gpu' }
  await admin('POST', '/nodes', { customer_id: owner.id, url: node, ...offered })
  await admin('PUT', '/models', { id: model, ...prices })
  await admin('POST', `/customers/${payer.id}/credits`, { amount_wei: creditWei })
  await until('the node to be ready', async () => {
    const { nodes } = await admin<{ readonly nodes: readonly { readonly state: string }[] }>('GET', '/nodes')
    return nodes.every(({ state }) => state === 'ready')
  })
  const keys: Readonly<Record<Way, string>> = { free: owner.key, paid: payer.key }
  const target = (way: Way): Target => ({
    name: 'Penstock',
    url: `${url}/v1/api/chat/completions`,
    key: keys[way],
    pid: program.pid,
    ...ordinary,
    sidePids: () => descendants(program.pid),
    stop: program.stop,
  })
  return { admin, target }
}

/** Throws unless the books balance and something was paid. */
export async function proveBooks(admin: Admin): Promise<string> {
  const proof = await admin<{ readonly balanced: boolean; readonly debits_wei: string; readonly entries: number }>(
    'GET',
    '/ledger/proof',
  )
  if (!proof.balanced || proof.debits_wei === '0') throw new RigError('the books do not balance, or nothing was paid')
  return `The books balance: ${proof.entries} entries.`
}
