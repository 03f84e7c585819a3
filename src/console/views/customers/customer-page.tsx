import type { Customer, Key, KeyList } from '../../../protocol/wire/admin/accounts.ts'
import { ActButton, ActButtons } from '../../actions/act-button.tsx'
import { ActMenu } from '../../actions/act-menu.tsx'
import { activate, credit, deduct, setLimit, setReach, suspend } from '../../actions/customer-acts.ts'
import { addKey, editKey, setPolicy } from '../../actions/policy-acts.ts'
import type { NodeNames } from '../../actions/policy-fields.ts'
import { goesBeyond, reachText } from '../../actions/reach.ts'
import { Download } from '../../parts/download.tsx'
import { count, nothing, shortTime } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Figure, Id, Pill, useNow } from '../../parts/small.tsx'
import { Cut, Empty, Part } from '../../parts/states.tsx'
import { amountText, UnitChoice } from '../../parts/wei.tsx'
import { useLoad } from '../../state/load.ts'
import { namesToCome, useNodeNames } from '../../state/node-names.ts'
import { addressOf } from '../../state/place.ts'

const everyMs = 30_000
const minuteMs = 60_000
const keysMax = 1_000

/** One customer: its account, its keys, what can be done about them. */
export function CustomerPage({ id }: { id: string }) {
  const place = `/v1/admin/customers/${encodeURIComponent(id)}`
  const names = useNodeNames()
  const [customer, again] = useLoad<Customer>(place, everyMs)
  const [keys, keysAgain] = useLoad<KeyList>(`${place}/keys?limit=${keysMax}`, everyMs)
  return (
    <>
      <div class="title-row">
        <h1>Customers</h1>
        <UnitChoice />
      </div>
      <p>
        <a href="#customers">All customers</a>
      </p>
      <Part what="the customer" loaded={customer} again={again}>
        {(data) => (
          <>
            <Account customer={data} place={place} names={names} />
            <Part what="its keys" loaded={keys} again={keysAgain}>
              {(list) => (
                <>
                  <Keys customer={data} keys={list.keys} names={names} />
                  <Cut rows={list.keys.length} limit={keysMax} what="the newest keys" />
                </>
              )}
            </Part>
          </>
        )}
      </Part>
    </>
  )
}

function Account({ customer, place, names }: { customer: Customer; place: string; names: NodeNames }) {
  const daily = customer.gateway_policy?.daily_token_quota ?? null
  const on = customer.display_name
  const hourAgo = new Date(useNow(minuteMs) - 60 * minuteMs).toISOString()
  return (
    <section aria-labelledby="account-title">
      <h2 id="account-title">
        {customer.display_name} <Id id={customer.customer_id} />
      </h2>
      <dl class="figures">
        <Figure name="Account" value={customer.account_status} />
        <Figure name="Prompts may go to" value={reachText(customer.gateway_policy)} />
        <Figure name="Tokens a day" value={daily === null ? 'no limit' : count(daily)} />
        <Figure name="Balance" value={amountText(customer.balance_wei)} />
        <Figure name="Available" value={amountText(customer.available_wei)} />
      </dl>
      <p class="acts">
        <ActButton act={setLimit(customer)} on={on} label="Daily limit" />
        <ActButton act={setReach(customer)} on={on} label="Whose nodes" />
        <ActButton act={setPolicy(customer, names)} on={on} label="Whole policy" able={names !== namesToCome} />
        <ActButton act={credit(customer)} on={on} />
        {customer.account_status !== 'active' && <ActButton act={activate(customer)} on={on} />}
        <ActMenu
          acts={customer.account_status === 'active' ? [deduct(customer), suspend(customer)] : [deduct(customer)]}
          on={on}
        />
        <Download
          path={`${place}/usage-export?format=csv`}
          name={`usage-${customer.customer_id}.csv`}
          what="Export usage"
        />
        <Download
          path={`${place}/invoice?format=csv`}
          name={`invoice-${customer.customer_id}.csv`}
          what="Export invoice"
        />
        <a href={addressOf('requests', null, { customer_id: customer.customer_id })}>Its requests</a>
        <a href={addressOf('requests', null, { customer_id: customer.customer_id, outcome: 'failed', from: hourAgo })}>
          Failed in the last hour
        </a>
      </p>
    </section>
  )
}

function stateOf({ revoked_at, expires_at }: Key): { readonly tone: string; readonly text: string } {
  if (revoked_at !== null) return { tone: 'bad', text: 'revoked' }
  if (expires_at !== null && Date.parse(expires_at) < Date.now()) return { tone: 'warn', text: 'expired' }
  return { tone: 'good', text: 'active' }
}

function Keys({ customer, keys, names }: { customer: Customer; keys: readonly Key[]; names: NodeNames }) {
  return (
    <section aria-labelledby="keys-title">
      <div class="title-bar">
        <h2 id="keys-title">Keys</h2>
        <ActButton act={addKey(customer, names)} label="New key" kind="primary" able={names !== namesToCome} />
      </div>
      {keys.length === 0 ? (
        <Empty title="No key yet">A program needs one to ask for anything.</Empty>
      ) : (
        <Frame label="Keys">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col">State</th>
                <th scope="col">Begins with</th>
                <th scope="col">Prompts may go to</th>
                <th scope="col">Last used</th>
                <th scope="col">Ends</th>
                <th scope="col">
                  <span class="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {keys.map((key) => (
                <KeyRow key={key.key_id} given={key} customer={customer} names={names} />
              ))}
            </tbody>
          </table>
        </Frame>
      )}
    </section>
  )
}

function KeyRow({ given, customer, names }: { given: Key; customer: Customer; names: NodeNames }) {
  const { tone, text } = stateOf(given)
  const held = goesBeyond(given.model_policy, customer.gateway_policy)
  return (
    <tr>
      <th scope="row">
        {given.name} <Id id={given.key_id} />
      </th>
      <td data-label="State">
        <Pill tone={tone} text={text} />
      </td>
      <td data-label="Begins with">
        <code>{given.display_prefix}</code>
      </td>
      <td data-label="Prompts may go to">
        {reachText(given.model_policy)}
        {held && <small> but the account allows {reachText(customer.gateway_policy)}</small>}
      </td>
      <td data-label="Last used">{given.last_used_at === null ? nothing : shortTime(given.last_used_at)}</td>
      <td data-label="Ends">{given.expires_at === null ? nothing : shortTime(given.expires_at)}</td>
      <td class="actions">
        {given.revoked_at === null && (
          <ActButton act={editKey(customer, given, names)} on={given.name} label="Edit" able={names !== namesToCome} />
        )}
        <ActButtons kind="key" row={given} on={given.name} />
      </td>
    </tr>
  )
}
