import type { Customer, CustomerList } from '../../../protocol/wire/admin/accounts.ts'
import { ActButton } from '../../actions/act-button.tsx'
import { addCustomer } from '../../actions/customer-acts.ts'
import { count, nothing, shortTime } from '../../parts/format.ts'
import { type Column, LongTable } from '../../parts/long-table.tsx'
import { Id, Pill } from '../../parts/small.tsx'
import { Cut, Empty, Part } from '../../parts/states.tsx'
import { UnitChoice, Wei } from '../../parts/wei.tsx'
import { useLoad } from '../../state/load.ts'
import { usePlace } from '../../state/place.ts'
import { mayAct } from '../../state/session.ts'
import { CustomerPage } from './customer-page.tsx'

const everyMs = 30_000
const customersMax = 1_000
const statusTones = { active: 'good', suspended: 'warn', closed: 'bad' } as const

/** Who may use the gateway, with which keys and within which limits. */
export function Customers() {
  const { id } = usePlace()
  if (id !== null) return <CustomerPage key={id} id={id} />
  return (
    <>
      <div class="title-bar">
        <h1>Customers</h1>
        <UnitChoice />
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
  const [list, again] = useLoad<CustomerList>(`/v1/admin/customers?limit=${customersMax}`, everyMs)
  return (
    <Part what="the customers" loaded={list} again={again}>
      {({ customers }) =>
        customers.length === 0 ? (
          <Empty title="No customer yet">Each has an account, keys and limits of its own.</Empty>
        ) : (
          <>
            <CustomerTable customers={customers} />
            <Cut rows={customers.length} limit={customersMax} what="the newest customers" />
          </>
        )
      }
    </Part>
  )
}

const dailyOf = ({ gateway_policy: policy }: Customer) => policy?.daily_token_quota ?? null

const columns: readonly Column<Customer>[] = [
  {
    title: 'Customer',
    by: ({ display_name: name }) => name,
    show: ({ customer_id: id, display_name: name }) => (
      <>
        <a href={`#customers/${id}`}>{name}</a> <Id id={id} />
      </>
    ),
  },
  {
    title: 'Account',
    by: ({ account_status: status }) => status,
    show: ({ account_status: status }) => <Pill tone={statusTones[status]} text={status} />,
  },
  {
    title: 'Tokens a day',
    number: true,
    by: dailyOf,
    show: (customer) => {
      const daily = dailyOf(customer)
      return daily === null ? nothing : count(daily)
    },
  },
  {
    title: 'Available',
    number: true,
    // Wei are too many for a number's digits, which a sort does not need.
    by: ({ available_wei: wei }) => Number(wei),
    show: ({ available_wei: wei }) => <Wei wei={wei} />,
  },
  { title: 'Made', by: ({ created_at: at }) => at, show: ({ created_at: at }) => shortTime(at) },
]

const CustomerTable = ({ customers }: { customers: readonly Customer[] }) => (
  <LongTable
    label="Customers"
    rows={customers}
    keyOf={({ customer_id: id }) => id}
    textOf={({ customer_id: id, display_name: name }) => `${name} ${id}`}
    columns={columns}
  />
)
