import type { DeployPlan } from '../../../offline/deploy-contract.ts'
import { action, type Verb } from '../../frame/action.ts'
import { yesOption } from '../../frame/admin-options.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import { fields } from '../../frame/table.ts'

const operatorErrors: readonly string[] = ['OfflineError', 'DeployError', 'SettlementPackagesError']

async function telling<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof Error && operatorErrors.includes(error.name)) throw new CliFailure(error.message)
    throw error
  }
}

const planView = (plan: DeployPlan) => ({
  chain_id: plan.chainId,
  account: plan.account,
  operator: plan.operator,
  contract: plan.contract,
  gas: plan.gas.toString(),
  cost_wei: plan.costWei.toString(),
  balance_wei: plan.balanceWei.toString(),
})

const deploy = action({
  about:
    'Deploy the settlement contract (version 2) with SVC_CHAIN_RPC_URL, SVC_CHAIN_ID and SVC_CHAIN_KEY, and print its address',
  options: {
    operator: {
      kind: 'text',
      value: '0x…',
      about: 'Who may settle batches. Without it the account of SVC_CHAIN_KEY',
    },
    'dry-run': { kind: 'flag', about: 'Show what would be sent and what it would cost, and send nothing' },
    ...yesOption,
  },
  run: async ({ options, json }, session) => {
    const { operator } = options
    if (operator !== undefined && !/^0x[0-9a-fA-F]{40}$/.test(operator))
      throw new UsageFault('--operator is no address')
    const { deployContract } = await import('../../../offline/deploy-contract.ts')
    const { plan, send } = await telling(deployContract(session.env, operator ?? null))
    const view = planView(plan)
    const rows = [
      ['Chain', view.chain_id],
      ['Account', view.account],
      ['Operator', view.operator],
      ['Contract', view.contract],
      ['Gas', view.gas],
      ['Costs at most', `${view.cost_wei} wei of ${view.balance_wei}`],
    ] as const
    if (options['dry-run']) {
      session.show(json, { ...view, sent: false }, () => fields(session.terminal, [...rows, ['Sent', 'nothing']]))
      return undefined
    }
    if (plan.balanceWei < plan.costWei)
      throw new CliFailure(`The account ${plan.account} has ${plan.balanceWei} wei and may need ${plan.costWei}.`)
    if (!json) session.terminal.err(fields(session.terminal, rows))
    if (!(await session.agreed(options.yes, 'Deploy the contract?'))) return exitCodes.failed
    const made = await telling(send())
    const body = {
      ...view,
      contract: made.contract,
      transaction: made.transaction,
      block: made.block.toString(),
      sent: true,
    }
    session.show(json, body, () => `${made.contract}\n`)
    if (!json) session.terminal.err(`Set SVC_CHAIN_CONTRACT=${made.contract}\n`)
    return undefined
  },
})

export const chain: Verb = {
  name: 'chain',
  about: 'Prepare the blockchain on which payouts settle',
  actions: { deploy },
}
