import type { NewModelEntry } from '../../actors/catalogue/model-entries.ts'
import { parseWei } from '../../protocol/validation/parse-text.ts'
import type { ModelPut } from '../../protocol/wire/admin/catalogue.ts'
import { camelMembers } from '../frame/members.ts'
import type { Policy } from '../frame/policy.ts'

export const tag = 'Model catalogue (extension)'
export const cataloguePolicy: Policy = {
  role: 'operator',
  category: 'catalogue',
  target: 'model',
  reasonRequired: false,
}

type Price = 'prompt_token_price_wei' | 'completion_token_price_wei'

/** What the body says of the entry. */
export function writtenBy(body: ModelPut): NewModelEntry {
  const { id, etag: _, reason: __, prompt_token_price_wei: ___, completion_token_price_wei: ____, ...rest } = body
  const price = (name: Price) => (body[name] === undefined ? {} : { [name]: parseWei(body[name], name) })
  const prices: { readonly [P in Price]?: bigint | null } = {
    ...price('prompt_token_price_wei'),
    ...price('completion_token_price_wei'),
  }
  return { modelId: id, ...camelMembers({ ...rest, ...prices }) }
}
