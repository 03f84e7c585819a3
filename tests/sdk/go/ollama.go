package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	neturl "net/url"

	"github.com/ollama/ollama/api"
)

func ollamaTold() map[string]any {
	base, err := neturl.Parse(ollamaURL)
	must(err)
	client := api.NewClient(base, &http.Client{Transport: bearer{}})
	return map[string]any{
		"chat":        ollamaLoop(client, false),
		"chat_stream": ollamaLoop(client, true),
		"no_model":    ollamaError(client),
		"abort":       ollamaAbort(client),
	}
}

// The client has no place for a key: its HTTP client adds the header.
type bearer struct{}

func (bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request.Header.Set("Authorization", "Bearer "+key)
	return http.DefaultTransport.RoundTrip(request)
}

func ollamaLoop(client *api.Client, streamed bool) []any {
	parameters := api.ToolFunctionParameters{
		Type:       "object",
		Required:   []string{"step"},
		Properties: map[string]api.ToolProperty{"step": {Type: api.PropertyType{"integer"}}},
	}
	request := &api.ChatRequest{
		Model:    "m",
		Stream:   &streamed,
		Messages: []api.Message{{Role: "user", Content: "begin"}},
		Tools:    api.Tools{{Type: "function", Function: api.ToolFunction{Name: "look", Parameters: parameters}}},
	}
	for turns := 1; ; turns++ {
		answer := api.Message{Role: "assistant"}
		reason := ""
		must(client.Chat(ctx, request, func(part api.ChatResponse) error {
			answer.Content += part.Message.Content
			answer.ToolCalls = append(answer.ToolCalls, part.Message.ToolCalls...)
			reason = part.DoneReason
			return nil
		}))
		if len(answer.ToolCalls) == 0 {
			return []any{turns, reason, answer.Content}
		}
		request.Messages = append(request.Messages, answer)
		for _, call := range answer.ToolCalls {
			arguments, err := json.Marshal(call.Function.Arguments)
			must(err)
			result := api.Message{Role: "tool", ToolName: call.Function.Name, Content: look(string(arguments))}
			request.Messages = append(request.Messages, result)
		}
	}
}

func ollamaError(client *api.Client) []any {
	request := &api.ChatRequest{Model: "nothing", Messages: []api.Message{{Role: "user", Content: "begin"}}}
	var refused api.StatusError
	if !errors.As(client.Chat(ctx, request, func(api.ChatResponse) error { return nil }), &refused) {
		return []any{"no error of the API"}
	}
	return []any{refused.StatusCode}
}

// This client does not tell its caller of the end of the context; the node sees it.
func ollamaAbort(client *api.Client) bool {
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	parts := 0
	request := &api.ChatRequest{Model: "slow", Messages: []api.Message{{Role: "user", Content: "begin"}}}
	err := client.Chat(leaving, request, func(api.ChatResponse) error {
		parts++
		leave()
		return nil
	})
	return parts > 0 && (err == nil || errors.Is(err, context.Canceled))
}
