// go-redis against a server: `go run . PORT`. Ends with 1 at the first difference.
//
// The server has no data of its own; it is emptied. Speaks RESP2 and RESP3.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	checks = 0
)

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}

// same takes a reply with its error.
func same(expected any) func(found any, err error) {
	return func(found any, err error) {
		checks++
		if err != nil || !reflect.DeepEqual(found, expected) {
			panic(fmt.Sprintf("%#v (%v) is not %#v", found, err, expected))
		}
	}
}

func refused(text string, err error) {
	checks++
	if err == nil || !strings.Contains(err.Error(), text) {
		panic(fmt.Sprintf("%v does not say %q", err, text))
	}
}

func sorted(list []string, err error) (any, error) {
	sort.Strings(list)
	return list, err
}

// of widens the type of a reply.
func of[T any](found T, err error) (any, error) { return found, err }

func data(r, other *redis.Client) {
	same("OK")(of(r.Set(ctx, "s", "v", 0).Result()))
	same("v")(of(r.Get(ctx, "s").Result()))
	same(false)(of(r.SetNX(ctx, "s", "w", 0).Result()))
	same(int64(5))(of(r.IncrBy(ctx, "n", 5).Result()))
	same(1.5)(of(r.IncrByFloat(ctx, "f", 1.5).Result()))
	same([]any{"v", nil, "5"})(of(r.MGet(ctx, "s", "nothing", "n").Result()))
	same(true)(of(r.Expire(ctx, "s", time.Hour).Result()))
	refused("unknown command", r.Do(ctx, "NONESUCH", "x").Err())

	same(int64(2))(of(r.HSet(ctx, "h", "f", 1, "g", 2).Result()))
	same(map[string]string{"f": "1", "g": "2"})(of(r.HGetAll(ctx, "h").Result()))
	same(int64(3))(of(r.HIncrBy(ctx, "h", "f", 2).Result()))
	refused("WRONGTYPE", r.Get(ctx, "h").Err())

	same(int64(4))(of(r.RPush(ctx, "l", "a", "b", "c", "d").Result()))
	same([]string{"b", "c"})(of(r.LRange(ctx, "l", 1, 2).Result()))
	same("a")(of(r.LMove(ctx, "l", "m", "LEFT", "RIGHT").Result()))
	same([]string{"m", "a"})(of(r.BLPop(ctx, time.Second, "none", "m").Result()))
	refused("nil", r.BLPop(ctx, time.Second, "none").Err())
	waits := make(chan []string)
	go func() { waits <- other.BLPop(ctx, time.Minute, "w").Val() }()
	for !strings.Contains(r.Info(ctx, "clients").Val(), "blocked_clients:1") {
	}
	same(int64(1))(of(r.RPush(ctx, "w", "late").Result()))
	same([]string{"w", "late"})(of(<-waits, nil))

	same(int64(3))(of(r.SAdd(ctx, "e", "a", "b", "c").Result()))
	same([]string{"a", "b", "c"})(sorted(r.SMembers(ctx, "e").Result()))
	same(int64(2))(of(r.SAdd(ctx, "d", "c", "z").Result()))
	same([]string{"c"})(of(r.SInter(ctx, "e", "d").Result()))
	scores := []redis.Z{{Score: 0.5, Member: "half"}, {Score: 1, Member: "one"}, {Score: 2, Member: "two"}}
	same(int64(3))(of(r.ZAdd(ctx, "z", scores...).Result()))
	same(scores)(of(r.ZRangeWithScores(ctx, "z", 0, -1).Result()))
	same(0.5)(of(r.ZScore(ctx, "z", "half").Result()))
	same(scores[:1])(of(r.ZPopMin(ctx, "z").Result()))
	same(scores[1:])(of(r.ZRangeByScoreWithScores(ctx, "z", &redis.ZRangeBy{Min: "(0.5", Max: "+inf"}).Result()))
}

func transactions(r, other *redis.Client) {
	var number *redis.IntCmd
	_, err := r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "x", 1, 0)
		number = pipe.Incr(ctx, "x")
		return nil
	})
	same(int64(2))(number.Val(), err)
	refused("transaction failed", r.Watch(ctx, func(tx *redis.Tx) error {
		other.Set(ctx, "x", "other", 0)
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "x", "lost", 0).Err()
		})
		return err
	}, "x"))
	same("other")(of(r.Get(ctx, "x").Result()))
	var expected, found []string
	_, err = r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 2000 {
			key := fmt.Sprintf("p%d", i)
			pipe.Set(ctx, key, i, 0)
			expected = append(expected, key)
		}
		return nil
	})
	same("0")(r.Get(ctx, "p0").Val(), err)
	keys := r.Scan(ctx, 0, "p*", 100).Iterator()
	for keys.Next(ctx) {
		found = append(found, keys.Val())
	}
	sort.Strings(expected)
	same(expected)(sorted(found, keys.Err()))
}

func channelsAndUsers(r, other *redis.Client, connect func(user, password string) *redis.Client) {
	listener := other.Subscribe(ctx, "news")
	_, err := listener.Receive(ctx)
	same(int64(1))(r.Publish(ctx, "news", "hello").Val(), err)
	message, err := listener.ReceiveMessage(ctx)
	same("hello")(message.Payload, err)
	same(map[string]int64{"news": 1})(of(r.PubSubNumSub(ctx, "news").Result()))
	listener.Close()

	rules := []string{"reset", "on", ">secret", "~own:*", "+get", "+set", "+hello"}
	same("OK")(of(r.ACLSetUser(ctx, "alice", rules...).Result()))
	alice := connect("alice", "secret")
	same("OK")(of(alice.Set(ctx, "own:k", "v", 0).Result()))
	refused("NOPERM", alice.Get(ctx, "k").Err())
	refused("NOPERM", alice.Del(ctx, "own:k").Err())
	refused("WRONGPASS", connect("alice", "wrong").Get(ctx, "own:k").Err())
	same(int64(1))(of(r.ACLDelUser(ctx, "alice").Result()))
}

func main() {
	defer func() {
		if text := recover(); text != nil {
			fail(fmt.Sprint(text))
		}
	}()
	for _, protocol := range []int{2, 3} {
		connect := func(user, password string) *redis.Client {
			return redis.NewClient(&redis.Options{
				Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, Username: user, Password: password,
			})
		}
		r, other := connect("", ""), connect("", "")
		same("OK")(of(r.FlushAll(ctx).Result()))
		data(r, other)
		transactions(r, other)
		channelsAndUsers(r, other, connect)
	}
	fmt.Printf("go-redis %s: %d checks, no difference\n", redis.Version(), checks)
}
