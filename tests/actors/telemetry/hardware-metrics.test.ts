import { expect, test } from 'bun:test'
import { hardwareOf } from '../../../src/actors/pool/views/pool-counts.ts'
import { createMetrics } from '../../../src/actors/telemetry/metrics.ts'

test('§39: computers that share a host name have samples of their own, and one whose name is its own has that name', async () => {
  const names: Readonly<Record<string, string>> = { node_a: 'localhost', node_b: 'localhost', node_c: 'desk' }
  const nodes = (['node_a', 'node_b', 'node_c', 'node_d'] as const).map((nodeId, at) => ({
    nodeId,
    hardware: nodeId === 'node_d' ? null : { memory_total_mb: at + 1 },
  }))
  const metrics = createMetrics()
  metrics.observe({ hardware: () => hardwareOf(nodes, (nodeId) => names[nodeId] ?? null) })
  const samples = (await metrics.text()).split('\n').filter((line) => line.startsWith('svc_node_memory_bytes{'))
  expect(samples).toEqual([
    'svc_node_memory_bytes{node="localhost (node_a)"} 1048576',
    'svc_node_memory_bytes{node="localhost (node_b)"} 2097152',
    'svc_node_memory_bytes{node="desk"} 3145728',
  ])
})
