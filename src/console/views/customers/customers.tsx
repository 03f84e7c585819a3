import type { Customer, CustomerList } from '../../../protocol/wire/admin/admin.ts'
import { ActButton } from '../../actions/act-button.tsx'
import { addCustomer } from '../../actions/customer-acts.ts'
import { count, nothing, shortTime } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { More, SearchField, useNarrow } from '../../parts/narrow.tsx'
import { Id, Pill } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { Wei } from '../../parts/wei.tsx'
import { useLoad } from '../../state/load.ts'
import { usePlace } from '../../state/place.ts'
import { mayAct } from '../../state/session.ts'
import { CustomerPage } from './customer-page.tsx'

const everyMs = 30_000
export const statusTones = { active: 'good', suspended: 'warn', closed: 'bad' } as const

/** Who may use the gateway, with which keys and within which limits. */
export function Customers() {
  const { id } = usePlace()
  if (id !== null) return <CustomerPage key={id} id={id} />
  return (
    <>
      <div class="title-bar">
        <h1>Customers</h1>
        <ActButton act={addCustomer()} label="Add a customer" kind="primary" />
      </div>
      {mayAct('operator') ? (
        <CustomerPart />
      ) : (
        <Empty title="Not for this role">An operator or admin token shows the customers.</Empty>
      )}
    </>
  )
}

function CustomerPart() {
  const [list, again] = useLoad<CustomerList>('/v1/admin/customers?limit=1000', everyMs)
  return (
    <Part what="the customers" loaded={list} again={again}>
      {({ customers }) =>
        customers.length === 0 ? (
          <Empty title="No customer yet">Each has an account, keys and limits of its own.</Empty>
        ) : (
          <CustomerTable customers={customers} />
        )
      }
    </Part>
  )
}

function CustomerTable({ customers }: { customers: readonly Customer[] }) {
  const narrow = useNarrow(customers, ({ customer_id, display_name }) => `${display_name} ${customer_id}`)
  return (
    <>
      <SearchField what="customers" narrow={narrow} />
      <Frame label="Customers, newest first">
        <table class="cards">
          <thead>
            <tr>
              <th scope="col">Customer</th>
              <th scope="col">Account</th>
              <th scope="col" class="number">
                Tokens a day
              </th>
              <th scope="col" class="number">
                Available
              </th>
              <th scope="col">Made</th>
            </tr>
          </thead>
          <tbody>
            {narrow.rows.map((customer) => (
              <CustomerRow key={customer.customer_id} customer={customer} />
            ))}
          </tbody>
        </table>
      </Frame>
      <More narrow={narrow} />
    </>
  )
}

function CustomerRow({ customer }: { customer: Customer }) {
  const daily = customer.gateway_policy?.daily_token_quota ?? null
  return (
    <tr>
      <th scope="row">
        <a href={`#customers/${customer.customer_id}`}>{customer.display_name}</a> <Id id={customer.customer_id} />
      </th>
      <td data-label="Account">
        <Pill tone={statusTones[customer.account_status]} text={customer.account_status} />
      </td>
      <td data-label="Tokens a day" class="number">
        {daily === null ? nothing : count(daily)}
      </td>
      <td data-label="Available" class="number">
        <Wei wei={customer.available_wei} />
      </td>
      <td data-label="Made">{shortTime(customer.created_at)}</td>
    </tr>
  )
}
