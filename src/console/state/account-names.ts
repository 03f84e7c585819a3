import type { CustomerList, KeyList } from '../../protocol/wire/admin/accounts.ts'
import { useLoad } from './load.ts'
import { namesToCome } from './node-names.ts'
import { mayAct } from './session.ts'

/** By id. */
export type Names = ReadonlyMap<string, string>

/** Only for roles that may read them: a refusal would count as a denied call in the audit. */
const listed = (path: string) => (mayAct('operator') ? `${path}?limit=1000` : null)

/** Two of one name are told apart by their ids. */
function distinct(all: readonly (readonly [id: string, name: string])[]): Names {
  const times = Map.groupBy(all, ([, name]) => name)
  return new Map(all.map(([id, name]) => [id, times.get(name)?.length === 1 ? name : `${name} (…${id.slice(-4)})`]))
}

/** Of the newest thousand customers, for those who may know them. */
export function useCustomerNames(): Names {
  const path = listed('/v1/admin/customers')
  const [list] = useLoad<CustomerList>(path)
  if (path !== null && list.kind === 'loading') return namesToCome
  if (list.kind !== 'ready') return new Map()
  return distinct(list.data.customers.map(({ customer_id: id, display_name: name }) => [id, name]))
}

/** Likewise of keys, each with the name of its customer: many customers have a key of the same name. */
export function useKeyNames(customers: Names): Names {
  const path = listed('/v1/admin/keys')
  const [list] = useLoad<KeyList>(path)
  if (path !== null && (list.kind === 'loading' || customers === namesToCome)) return namesToCome
  if (list.kind !== 'ready') return new Map()
  return distinct(
    list.data.keys.map(({ key_id: id, name, customer_id }) => {
      const of = customers.get(customer_id) ?? name
      return [id, of === name ? name : `${name} of ${of}`]
    }),
  )
}
