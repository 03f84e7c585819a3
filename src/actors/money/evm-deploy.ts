import type { Abi, Hex } from 'viem'
import { programFile } from '../../host/program-files.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { fetchRpc, loadViem, rpcCode } from './evm-rpc.ts'

export interface DeployOptions {
  readonly rpcUrl: string
  readonly chainId: number
  /** `0x` and 64 hex digits: the account that pays for the deployment. */
  readonly key: string
  /** Who may settle batches; null: the account itself. */
  readonly operator: string | null
}

export interface DeployPlan {
  readonly chainId: number
  readonly account: string
  readonly operator: string
  /** Where the contract will be, if this account sends nothing else before. */
  readonly contract: string
  readonly gas: bigint
  /** At most, at the fees of now. */
  readonly costWei: bigint
  readonly balanceWei: bigint
}

export interface Deployed {
  readonly contract: string
  readonly transaction: string
  readonly block: bigint
}

/** The text is for the operator, and holds nothing of the RPC's. */
export class DeployError extends Error {
  override readonly name = 'DeployError'
}

const compiled = programFile('contracts/PayoutSettlementV2.json')
const rpcTimeoutMs = 10 * secondMs
/** After this time without a block, the operator decides about the transaction. */
const inclusionMs = 5 * minuteMs
const pollMs = secondMs

const refused = (what: string, error: unknown) => new DeployError(`${what} (${rpcCode(error)}).`)

/** What a deployment of contract v2 would do, and how to do it. Nothing is sent before `send`. */
export async function planDeploy(
  options: DeployOptions,
): Promise<{ readonly plan: DeployPlan; readonly send: () => Promise<Deployed> }> {
  const { viem, accounts } = await loadViem()
  const account = accounts.privateKeyToAccount(options.key as Hex)
  const transport = viem.http(options.rpcUrl, { timeout: rpcTimeoutMs, retryCount: 0, fetchFn: fetchRpc })
  const reader = viem.createPublicClient({ transport, pollingInterval: pollMs })
  const writer = viem.createWalletClient({ account, transport })
  const operator = viem.getAddress((options.operator ?? account.address).toLowerCase())
  const { abi, bytecode } = foreignJson(await Bun.file(compiled).text()) as {
    readonly abi: Abi
    readonly bytecode: Hex
  }
  const call = { abi, bytecode, args: [operator] }
  const plan = async (): Promise<DeployPlan> => {
    const [chainId, nonce, balanceWei] = await Promise.all([
      reader.getChainId(),
      reader.getTransactionCount({ address: account.address, blockTag: 'pending' }),
      reader.getBalance({ address: account.address }),
    ])
    if (chainId !== options.chainId)
      throw new DeployError(`The RPC serves chain ${chainId}, and SVC_CHAIN_ID is ${options.chainId}.`)
    const gas = await reader.estimateGas({ account: account.address, data: viem.encodeDeployData(call) })
    const feeWei = (await reader.estimateFeesPerGas()).maxFeePerGas
    const address = viem.getContractAddress({ from: account.address, nonce: BigInt(nonce) })
    return { chainId, account: account.address, operator, contract: address, gas, costWei: gas * feeWei, balanceWei }
  }
  const send = async (): Promise<Deployed> => {
    const hash = await writer.deployContract({ ...call, chain: null })
    const { contractAddress, blockNumber, status } = await reader.waitForTransactionReceipt({
      hash,
      timeout: inclusionMs,
    })
    if (status !== 'success' || contractAddress == null) throw new DeployError(`The transaction ${hash} was reverted.`)
    const onChain = await reader.readContract({ address: contractAddress, abi: call.abi, functionName: 'operator' })
    if (onChain !== operator) throw new DeployError(`The contract at ${contractAddress} names another operator.`)
    return { contract: contractAddress, transaction: hash, block: blockNumber }
  }
  const telling = <T>(what: string, work: () => Promise<T>) =>
    work().catch((error: unknown) => {
      throw error instanceof DeployError ? error : refused(what, error)
    })
  return {
    plan: await telling('The chain could not be asked', plan),
    send: () => telling('The contract was not deployed', send),
  }
}
