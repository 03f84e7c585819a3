/** All series of one metric: labels → value. */
export function seriesOf(text: string, name: string): ReadonlyMap<string, number> {
  const found = [...text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'))]
  return new Map(found.map(([, labels = '', value]) => [labels, Number(value)]))
}

/** The sum of the series that have this in their labels: every process of a gateway has its own. */
export function metricSum(text: string, name: string, having = ''): number {
  const series = [...seriesOf(text, name)].filter(([labels]) => labels.includes(having))
  return series.reduce((sum, [, value]) => sum + value, 0)
}

/** What a gateway with `SVC_METRICS_PUBLIC` shows of one metric. */
export async function shownMetric({ url }: { readonly url: string }, name: string, having = ''): Promise<number> {
  return metricSum(await (await fetch(`${url}/metrics`)).text(), name, having)
}
