import type { AuditLog } from './audit/audit-log.ts'
import type { GatewayParts } from './gateway-handle.ts'
import type { ReceiptMacs } from './log/receipt-macs.ts'
import { createBilling } from './money/billing.ts'
import { createEvmChain, type EvmChain } from './money/evm-chain.ts'
import { createIdempotency } from './money/idempotency.ts'
import { Ledger } from './money/ledger.ts'
import { ReceiptWriter } from './money/receipt-writer.ts'
import { Settlement } from './money/settlement.ts'
import { createSettlementView } from './money/settlement-view.ts'
import type { OwnInspector } from './telemetry/inspect.ts'

interface MoneyActors {
  readonly inspector: OwnInspector
  readonly audit: AuditLog
  readonly macs: ReceiptMacs
}

/** null if no blockchain is configured. */
export async function evmChainOf({ config }: GatewayParts): Promise<EvmChain | null> {
  const { SVC_CHAIN_RPC_URL: rpcUrl, SVC_CHAIN_KEY: key, SVC_CHAIN_CONTRACT: contract } = config
  if (rpcUrl === null || key === null || contract === null) return null
  const { SVC_CHAIN_ID: chainId, SVC_CHAIN_CONFIRMATIONS: confirmations } = config
  return createEvmChain({ rpcUrl, key, contract, chainId, confirmations })
}

/** The actors that move money and prove it. */
export function createMoney(parts: GatewayParts, actors: MoneyActors, chain: EvmChain | null) {
  const { config, log, database, peppers } = parts
  const { db } = database
  const { audit: trail, macs, inspector } = actors
  const settlement = new Settlement({
    ...database,
    log,
    trail,
    chain,
    inspect: inspector.inspect,
    pollMs: config.SVC_SETTLEMENT_POLL_MS,
    batchAgeMs: config.SVC_PAYOUT_BATCH_AGE_MS,
    announceMs: config.SVC_PAYOUT_ANNOUNCE_MS,
    batchMinWei: config.SVC_PAYOUT_BATCH_MIN_WEI,
  })
  const ledger = new Ledger({ ...database, log, macs })
  return {
    ledger,
    billing: createBilling({ db, trail, recall: (customerId) => ledger.recall(customerId) }),
    settlement,
    settlementView: createSettlementView(db),
    idempotency: createIdempotency({ db, log, peppers, requestMsMax: config.SVC_TOTAL_TIMEOUT_MS }),
    receipts: new ReceiptWriter({ ...database, flushMs: config.SVC_RECEIPT_FLUSH_MS, log, macs }),
  }
}
