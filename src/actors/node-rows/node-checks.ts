import type { Database } from '../../db/client.ts'
import type { NodeChanges } from '../../db/queries/pool/pool.ts'
import { listNodes, lockNodes } from '../../db/queries/pool/pool.ts'
import { Problem } from '../../errors.ts'
import { type CustomerId, modelIdPattern } from '../../ids.ts'
import { hoursOf } from '../../machines/sleep/hours.ts'
import { hoursWords } from '../../protocol/wire/nodes/hours-form.ts'
import { everyModel, type ServedWork } from '../../protocol/wire/nodes/kinds-of-work.ts'
import { lowerMac, macOf } from '../../protocol/wire/nodes/power.ts'
import { nodeBaseUrl } from '../../transport/http1/direct.ts'
import type { Sealing } from '../accounts/sealing.ts'

export function sealedKey(apiKey: string | null | undefined, sealing: Sealing): Buffer | null {
  return apiKey == null ? null : sealing.seal('node_api_key', apiKey)
}

interface WakeChanges {
  /** Any form of a hardware address. */
  readonly mac: string | null | undefined
  readonly secureOn: string | null | undefined
  readonly wakeHours: string | null | undefined
}

/** How and when a node is woken. Throws `invalid_request` for what is no address of a single card, and no hours. */
export function wakeChanges({ mac, secureOn, wakeHours }: WakeChanges, sealing: Sealing): NodeChanges {
  const address = mac == null ? null : macOf(mac)
  if (mac != null && address === null) {
    const detail = `mac: ${mac} is not the hardware address of one network card`
    throw new Problem('invalid_request', { param: 'mac', detail })
  }
  if (wakeHours != null && hoursOf(wakeHours) === null) {
    throw new Problem('invalid_request', { param: 'wake_hours', detail: `wake_hours takes ${hoursWords}` })
  }
  const secret = secureOn == null ? null : sealing.seal('node_wake_secret', lowerMac(secureOn))
  return {
    ...(mac === undefined ? {} : { macs: address === null ? null : [address] }),
    ...(secureOn === undefined ? {} : { wakeSecretSealed: secret }),
    ...(wakeHours === undefined ? {} : { wakeHours }),
  }
}

/** Each line names one model of the node, or all others. */
export function checkedWork(serves: ServedWork | null): ServedWork | null {
  const names = Object.keys(serves ?? {})
  const wrong = names.find((name) => name !== everyModel && !modelIdPattern.test(name))
  if (wrong === undefined) return names.length === 0 ? null : serves
  const detail = `serves: ${JSON.stringify(wrong)} is no model id; ${everyModel} stands for the models without a line`
  throw new Problem('invalid_request', { param: 'serves', detail })
}

/** Checks the base URL of a model server. Credentials have their own field, because the URL appears in logs. */
export function checkedUrl(text: string): string {
  const refused = (detail: string) => new Problem('invalid_request', { param: 'url', detail })
  if (!URL.canParse(text)) throw refused('url is not a URL')
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refused('url must begin with http:// or https://')
  if (url.port === '0') throw refused('url names port 0, where nothing can be reached')
  if (url.username !== '' || url.password !== '') throw refused('url must not hold credentials; use api_key')
  if (url.search !== '' || url.hash !== '') throw refused('url must not have a query or a fragment')
  return url.origin + url.pathname.replace(/\/+$/, '')
}

/** Whether a node's stored URL and this one lead to the same server. */
export const sameServer = (stored: string | null, url: string): boolean =>
  stored !== null && nodeBaseUrl(stored) === nodeBaseUrl(url)

/**
 * One server is one node of its owner: twice it would get twice the work that it has room for. Two that name it at once
 * take turns.
 */
export async function refuseTwice(tx: Database, customerId: string, url: string): Promise<void> {
  await lockNodes(tx)
  const rows = await listNodes(tx, customerId as CustomerId)
  const same = rows.find((row) => sameServer(row.url, url) && row.adminState !== 'revoked')
  if (same !== undefined) throw new Problem('node_exists', { param: 'url', detail: `It is ${same.nodeId}` })
}
